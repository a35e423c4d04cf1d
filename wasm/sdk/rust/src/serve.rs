//! From the exports to the functions of a module.

use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use crate::memory::ARENA;
use crate::records::{kind, status};
use crate::wire::{Out, Read, Reader, Write};
use crate::{Admission, Billing, Configure, Filter, Rewrite, Router, Stop, Translator};

/// Exports a module of a kind: `module!(billing, Flat)`.
#[macro_export]
macro_rules! module {
    ($kind:ident, $type:ty) => {
        $crate::module!(@ $crate::$kind, $type);
    };
    (@ $handler:path, $type:ty) => {
        #[cfg(target_arch = "wasm32")]
        mod exported {
            #[allow(unused_imports)]
            use super::*;

            static MODULE: $crate::Slot<$type> = $crate::Slot::new();

            #[no_mangle]
            extern "C" fn abi() -> i32 {
                1 << 16
            }

            #[no_mangle]
            extern "C" fn buf(n: u32) -> *mut u8 {
                $crate::buffer(n as usize)
            }

            #[no_mangle]
            extern "C" fn init(n: u32) -> u64 {
                MODULE.init(n as usize)
            }

            #[no_mangle]
            extern "C" fn call(op: u32, n: u32) -> u64 {
                MODULE.call(op, n as usize, $handler)
            }
        }
    };
}

/// The buffers of the boundary. The input stays in place until a larger one is asked for,
/// the output until the next call.
struct Buffers {
    input: Cell<&'static [u8]>,
    output: Cell<Vec<u8>>,
}

// A module has one thread.
unsafe impl Sync for Buffers {}

static BUFFERS: Buffers = Buffers { input: Cell::new(&[]), output: Cell::new(Vec::new()) };

/// Forgets the last call: its output, and all the memory that it took.
fn forget() {
    BUFFERS.output.set(Vec::new());
    ARENA.reset();
}

/// The input buffer, with room for n bytes.
pub fn buffer(n: usize) -> *mut u8 {
    forget();
    if n > BUFFERS.input.get().len() {
        BUFFERS.input.set(Vec::leak(alloc::vec![0; n]));
        ARENA.keep();
    }
    BUFFERS.input.get().as_ptr() as *mut u8
}

/// Where a frame is, for the node: pointer << 32 | length.
fn give(out: Out) -> u64 {
    let place = (out.bytes.as_ptr() as u64) << 32 | out.bytes.len() as u64;
    BUFFERS.output.set(out.bytes);
    place
}

const HEADER: usize = 8;

/// Writes one output frame: status u8, zero u8, kind u16, length u32, payload.
fn frame(n: usize, answer: impl FnOnce(&mut Out) -> Result<(), Stop>) -> Out {
    let mut out = Out { bytes: Vec::with_capacity(1024 + n + n / 2) };
    out.put([0; HEADER]);
    let (status, kind) = match answer(&mut out) {
        Ok(()) => (status::OK, kind::INTERNAL),
        Err(stop) => {
            out.bytes.truncate(HEADER);
            match stop {
                Stop::Decline => (status::DECLINE, kind::INTERNAL),
                Stop::Refuse(kind, param, msg) => {
                    out.put([0; 4]).clipped(&param);
                    let n = (out.bytes.len() - HEADER - 4) as u32;
                    out.bytes[HEADER..HEADER + 4].copy_from_slice(&n.to_le_bytes());
                    out.clipped(&msg);
                    (status::ERROR, kind)
                }
            }
        }
    };
    let n = (out.bytes.len() - HEADER) as u32;
    out.bytes[0] = status;
    out.bytes[2..4].copy_from_slice(&kind.to_le_bytes());
    out.bytes[4..8].copy_from_slice(&n.to_le_bytes());
    out
}

/// Holds the one module of a program.
pub struct Slot<T> {
    module: RefCell<Option<T>>,
}

// A module has one thread.
unsafe impl<T> Sync for Slot<T> {}

impl<T: Configure> Slot<T> {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Slot { module: RefCell::new(None) }
    }

    pub fn init(&self, n: usize) -> u64 {
        let config = match BUFFERS.input.get().get(..n) {
            None => return 0,
            Some([]) => &b"{}"[..],
            Some(config) => config,
        };
        BUFFERS.output.set(Vec::new());
        let out = frame(0, |_| {
            *self.module.borrow_mut() = Some(T::configure(config)?);
            Ok(())
        });
        ARENA.keep();
        give(out)
    }

    pub fn call(&self, op: u32, n: usize, kind: fn(&T, u32, &[u8], &mut Out) -> Result<(), Stop>) -> u64 {
        forget();
        match (BUFFERS.input.get().get(..n), &*self.module.borrow()) {
            (Some(input), Some(module)) => give(frame(n, |out| kind(module, op, input, out))),
            _ => 0,
        }
    }
}

fn read<'a, T: Read<'a>>(input: &'a [u8]) -> Result<T, Stop> {
    let mut r = Reader::new(input);
    let record = T::read(&mut r);
    if r.bad {
        return Err(Stop::Decline);
    }
    Ok(record)
}

pub fn translator<T: Translator>(t: &T, op: u32, input: &[u8], out: &mut Out) -> Result<(), Stop> {
    match op {
        1 => {
            out.put([0; 4]);
            let kept = t.request(&read(input)?, out)?;
            if !kept.is_empty() {
                out.section(HEADER, 0, &kept);
            }
        }
        2 => {
            let input: crate::EventsInput = read(input)?;
            let (mut state, room) = (input.state.to_vec(), input.state.len());
            out.put([0; 4]).put(input.state); // as much room as the state had: most keep their size
            t.events(&input, &mut state, out);
            out.section(HEADER, room, &state);
        }
        3 => t.response(&read(input)?, out),
        4 => t.error(&read(input)?, out),
        _ => return Err(Stop::Decline),
    }
    Ok(())
}

pub fn router<T: Router>(t: &T, op: u32, input: &[u8], out: &mut Out) -> Result<(), Stop> {
    match op {
        5 => t.models(&read(input)?, out)?,
        6 => t.count(&read(input)?, out),
        _ => translator(t, op, input, out)?,
    }
    Ok(())
}

pub fn billing<T: Billing>(t: &T, op: u32, input: &[u8], out: &mut Out) -> Result<(), Stop> {
    match op {
        16 => t.quote(&read(input)?).ok_or(Stop::Decline)?.write(out),
        17 => t.charge(&read(input)?).ok_or(Stop::Decline)?.write(out),
        _ => return Err(Stop::Decline),
    }
    Ok(())
}

pub fn admission<T: Admission>(t: &T, op: u32, input: &[u8], out: &mut Out) -> Result<(), Stop> {
    if op != 32 {
        return Err(Stop::Decline);
    }
    t.decide(&read(input)?).ok_or(Stop::Decline)?.write(out);
    Ok(())
}

pub fn rewrite<T: Rewrite>(t: &T, op: u32, input: &[u8], out: &mut Out) -> Result<(), Stop> {
    if op != 48 {
        return Err(Stop::Decline);
    }
    t.rewrite(&read(input)?, out)
}

pub fn filter<T: Filter>(t: &T, op: u32, input: &[u8], out: &mut Out) -> Result<(), Stop> {
    if op != 64 {
        return Err(Stop::Decline);
    }
    let input: crate::FilterInput = read(input)?;
    let mut state = input.state.to_vec();
    out.put([0; 4]);
    t.filter(&input, &mut state, out);
    out.section(HEADER, 0, &state);
    Ok(())
}
