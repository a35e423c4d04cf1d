//! Reading inputs and writing outputs, byte by byte.

use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::records::{Elapsed, Usage};

/// Reads a record from its front. After the first malformed field it gives zeros.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
    pub bad: bool,
}

/// What can be read.
pub trait Read<'a> {
    fn read(r: &mut Reader<'a>) -> Self;
}

impl<'a> Reader<'a> {
    pub fn new(record: &'a [u8]) -> Self {
        Reader { rest: record, bad: false }
    }

    fn take(&mut self, n: usize) -> &'a [u8] {
        if self.bad || n > self.rest.len() {
            self.bad = true;
            return &[];
        }
        let (head, rest) = self.rest.split_at(n);
        self.rest = rest;
        head
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        self.take(N).try_into().unwrap_or([0; N])
    }

    pub fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub fn i64(&mut self) -> i64 {
        i64::from_le_bytes(self.array())
    }

    pub fn section(&mut self) -> &'a [u8] {
        let n = self.u32();
        self.take(n as usize)
    }

    pub fn rest(&mut self) -> &'a [u8] {
        self.take(self.rest.len())
    }

    /// Finds out which form the record has, and gives the version that brought it. The
    /// form without a tag is what no tag fits.
    pub fn layout(&mut self, forms: &[(&[u8], u32)]) -> u32 {
        for (tag, since) in forms.iter().rev() {
            if self.rest.starts_with(tag) {
                self.take(tag.len());
                return *since;
            }
        }
        self.bad = true;
        0
    }
}

/// Records in a row, which are read as they are taken.
#[derive(Clone, Copy)]
pub struct List<'a, T> {
    count: u32,
    at: Reader<'a>,
    of: PhantomData<T>,
}

impl<T> Default for List<'_, T> {
    fn default() -> Self {
        List { count: 0, at: Reader::new(&[]), of: PhantomData }
    }
}

impl<'a, T: Read<'a>> List<'a, T> {
    pub(crate) fn read(count: u32, r: &mut Reader<'a>) -> Self {
        let at = *r;
        for _ in 0..count {
            if r.bad {
                break;
            }
            T::read(r);
        }
        List { count, at, of: PhantomData }
    }

    pub fn len(&self) -> usize {
        self.count as usize
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = T> + 'a {
        let mut at = self.at;
        (0..self.count).map(move |_| T::read(&mut at))
    }
}

/// One event frame. Skip kinds that you do not know.
#[derive(Clone, Copy, Default)]
pub struct Frame<'a> {
    /// A number of `event`.
    pub kind: u8,
    /// Of the end a number of `stop`, else of `block`.
    pub mark: u8,
    pub index: u16,
    /// Of a delta its text, escaped.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The usage of a start or an end.
    pub fn usage(&self) -> Usage {
        Usage::read(&mut Reader::new(self.payload))
    }

    /// The escaped stop sequence of an end.
    pub fn stop_sequence(&self) -> &'a [u8] {
        self.payload.get(40..).unwrap_or(&[])
    }

    /// How long the answer took.
    pub fn elapsed(&self) -> Elapsed {
        Elapsed::read(&mut Reader::new(self.payload))
    }

    /// The escaped id and name of a tool use that begins.
    pub fn tool(&self) -> (&'a [u8], &'a [u8]) {
        let mut r = Reader::new(self.payload);
        let n = r.u16();
        (r.take(n as usize), r.rest())
    }
}

/// The frames that bytes hold; it ends at the first that is not whole.
pub fn frames(bytes: &[u8]) -> Frames<'_> {
    Frames { r: Reader::new(bytes) }
}

pub struct Frames<'a> {
    r: Reader<'a>,
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        let (kind, mark, index) = (self.r.u8(), self.r.u8(), self.r.u16());
        let payload = self.r.section();
        if self.r.bad {
            return None;
        }
        Some(Frame { kind, mark, index, payload })
    }
}

impl<'a> Read<'a> for i64 {
    fn read(r: &mut Reader<'a>) -> Self {
        r.i64()
    }
}

/// What can be written.
pub trait Write {
    fn write(&self, out: &mut Out);
}

/// The output, written from front to end.
pub struct Out {
    pub(crate) bytes: Vec<u8>,
}

impl Default for Out {
    fn default() -> Self {
        Out::new()
    }
}

impl Out {
    pub fn new() -> Self {
        Out { bytes: Vec::new() }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes bytes as they are. Texts in event frames and in JSON are escaped already.
    pub fn put(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.bytes.extend_from_slice(bytes.as_ref());
        self
    }

    /// Ends a chain of calls where a value of no type is wanted.
    pub fn nothing(&mut self) {}

    pub fn byte(&mut self, b: u8) -> &mut Self {
        self.bytes.push(b);
        self
    }

    pub fn decimal(&mut self, n: i64) -> &mut Self {
        let mut digits = [0; 20];
        let (mut at, mut rest) = (digits.len(), n.unsigned_abs());
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if n < 0 {
            self.byte(b'-');
        }
        self.put(&digits[at..])
    }

    /// Writes text as it stands between the quotes of a JSON string; bytes that are no
    /// UTF-8 become U+FFFD.
    pub fn escaped(&mut self, text: impl AsRef<[u8]>) -> &mut Self {
        let text = text.as_ref();
        let (mut clean, mut i) = (0, 0); // from clean to i nothing needs a change
        while i < text.len() {
            let c = text[i];
            let length = if c == b'"' || c == b'\\' || c < b' ' { 0 } else { character(&text[i..]) };
            if length > 0 {
                i += length;
                continue;
            }
            self.put(&text[clean..i]);
            i += 1;
            clean = i;
            match c {
                0x80.. => self.put("\u{fffd}"),
                b'"' | b'\\' => self.byte(b'\\').byte(c),
                b'\n' => self.put("\\n"),
                b'\r' => self.put("\\r"),
                b'\t' => self.put("\\t"),
                _ => self.put("\\u00").byte(hex(c >> 4)).byte(hex(c & 15)),
            };
        }
        self.put(&text[clean..])
    }

    /// Writes what a refusal may have of a text: UTF-8 of at most 2048 bytes.
    pub fn clipped(&mut self, text: &[u8]) {
        let mut i = 0;
        while i < text.len() {
            let length = character(&text[i..]);
            if i + length.max(1) > REFUSAL_BYTES_MAX {
                return;
            }
            if length > 0 {
                self.put(&text[i..i + length]);
            } else {
                self.byte(b'?');
            }
            i += length.max(1);
        }
    }

    pub(crate) fn unit(&mut self, unit: &str) {
        let mut bytes = [0; 16];
        let n = unit.len().min(bytes.len());
        bytes[..n].copy_from_slice(&unit.as_bytes()[..n]);
        self.put(bytes);
    }

    /// Puts a section in the place of the one of n bytes at a position.
    pub(crate) fn section(&mut self, at: usize, n: usize, section: &[u8]) {
        let grown = section.len().saturating_sub(n);
        let (from, end) = (at + 4 + n, self.bytes.len());
        self.bytes.resize(end + grown, 0);
        self.bytes.copy_within(from..end, at + 4 + section.len());
        self.bytes.truncate(end + section.len() - n);
        self.bytes[at + 4..at + 4 + section.len()].copy_from_slice(section);
        self.bytes[at..at + 4].copy_from_slice(&(section.len() as u32).to_le_bytes());
    }
}

const REFUSAL_BYTES_MAX: usize = 2048;

fn hex(digit: u8) -> u8 {
    b"0123456789abcdef"[digit as usize & 15]
}

/// The length of the UTF-8 character that bytes begin with; 0 if they begin with none.
pub(crate) fn character(bytes: &[u8]) -> usize {
    let first = bytes[0];
    let length = match first {
        0..=0x7f => return 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return 0,
    };
    if bytes.len() < length || bytes[1..length].iter().any(|b| b & 0xc0 != 0x80) {
        return 0;
    }
    match (first, bytes[1]) {
        (0xe0, ..=0x9f) | (0xed, 0xa0..) | (0xf0, ..=0x8f) | (0xf4, 0x90..) => 0,
        _ => length,
    }
}
