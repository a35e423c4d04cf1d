//! The memory of a module: one arena, whose end moves up with every allocation and back
//! after each call.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;

/// Invariant: nothing that is alive lies above top. What lies below mark was there when
/// the call began and stays; alive counts what lies above it.
pub struct Arena {
    top: Cell<usize>,
    mark: Cell<usize>,
    alive: Cell<usize>,
}

// A module has one thread.
unsafe impl Sync for Arena {}

#[cfg_attr(target_arch = "wasm32", global_allocator)]
pub static ARENA: Arena = Arena { top: Cell::new(0), mark: Cell::new(0), alive: Cell::new(0) };

impl Arena {
    /// Makes all that is there stay.
    pub fn keep(&self) {
        self.mark.set(self.top.get());
        self.alive.set(0);
    }

    /// Gives back what was taken since `keep`, unless something of it is still in use.
    pub fn reset(&self) {
        if self.alive.get() == 0 && self.top.get() > self.mark.get() {
            self.top.set(self.mark.get());
        }
    }

    fn count(&self, at: usize, change: isize) {
        if at >= self.mark.get() {
            self.alive.set(self.alive.get().wrapping_add_signed(change));
        }
    }
}

#[cfg(target_arch = "wasm32")]
fn base() -> usize {
    extern "C" {
        static __heap_base: u8;
    }
    unsafe { &__heap_base as *const u8 as usize }
}

/// Makes the memory end at or behind end.
#[cfg(target_arch = "wasm32")]
fn reserve(end: usize) -> bool {
    use core::arch::wasm32::{memory_grow, memory_size};
    let have = memory_size(0) << 16;
    end <= have || memory_grow(0, (end - have + 0xffff) >> 16) != usize::MAX
}

#[cfg(not(target_arch = "wasm32"))]
fn base() -> usize {
    0
}

#[cfg(not(target_arch = "wasm32"))]
fn reserve(_: usize) -> bool {
    false // elsewhere the system's allocator serves
}

unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let from = self.top.get().max(base());
        let place = from.checked_add(layout.align() - 1).map(|at| at & !(layout.align() - 1));
        match place.and_then(|at| Some((at, at.checked_add(layout.size())?))) {
            Some((at, end)) if reserve(end) => {
                self.top.set(end);
                self.count(at, 1);
                at as *mut u8
            }
            _ => core::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        self.count(at as usize, -1);
        if at as usize + layout.size() == self.top.get() {
            self.top.set(at as usize);
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if at as usize + layout.size() == self.top.get() {
            return match (at as usize).checked_add(size) {
                Some(end) if reserve(end) => {
                    self.top.set(end);
                    at
                }
                _ => core::ptr::null_mut(),
            };
        }
        let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if !moved.is_null() {
            core::ptr::copy_nonoverlapping(at, moved, size.min(layout.size()));
            self.dealloc(at, layout);
        }
        moved
    }
}

#[cfg(target_arch = "wasm32")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    core::arch::wasm32::unreachable()
}
