//! JSON: enough to find values in a body or a configuration.

use alloc::vec::Vec;

use crate::wire::character;

/// Walks one text forward without taking it apart:
///
///     let mut j = Json::new(body);
///     j.object();
///     while let Some(name) = j.member() {
///         match name {
///             b"model" => model = j.value(),
///             _ => return Err(refuse(name, "no such field")),
///         }
///     }
///     if !j.end() { ... }
///
/// What it takes is valid JSON, in UTF-8, at any depth up to 128, so a value may be written
/// into another body as it stands.
pub struct Json<'a> {
    rest: &'a [u8],
    started: bool,
    bad: bool,
}

const DEPTH_MAX: usize = 128;

/// What may stand next in a value.
#[derive(PartialEq)]
enum Wanted {
    Value,
    FirstValue,
    Key,
    FirstKey,
    After,
}

impl<'a> Json<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Json { rest: text, started: false, bad: false }
    }

    fn fail(&mut self) {
        self.bad = true;
        self.rest = &[];
    }

    /// The next byte that is no space; 0 at the end.
    fn peek(&mut self) -> u8 {
        while let [b' ' | b'\n' | b'\r' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
        self.rest.first().copied().unwrap_or(0)
    }

    fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, rest) = self.rest.split_at(n);
        self.rest = rest;
        head
    }

    /// Takes a string, quotes and all.
    fn quoted(&mut self) -> &'a [u8] {
        let mut i = 1;
        while i < self.rest.len() {
            let step = match self.rest[i] {
                b'"' => return self.take(i + 1),
                b'\\' => escape(&self.rest[i..]).map_or(0, |(_, n)| n.min(6)),
                b' '..=0x7f => 1,
                0x80.. => character(&self.rest[i..]),
                _ => 0,
            };
            if step == 0 {
                break;
            }
            i += step;
        }
        self.fail();
        &[]
    }

    /// Takes a number, true, false or null.
    fn plain(&mut self) {
        let text = self.rest;
        if let Some(word) = ["true", "false", "null"].iter().find(|w| text.starts_with(w.as_bytes())) {
            self.take(word.len());
            return;
        }
        let digits = |from: usize| text[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let start = text.starts_with(b"-") as usize;
        let whole = digits(start);
        let mut i = start + whole;
        let mut good = whole > 0 && (text[start] != b'0' || whole == 1);
        if text.get(i) == Some(&b'.') {
            let n = digits(i + 1);
            good = good && n > 0;
            i += 1 + n;
        }
        if let Some(b'e' | b'E') = text.get(i) {
            i += 1 + matches!(text.get(i + 1), Some(b'+' | b'-')) as usize;
            let n = digits(i);
            good = good && n > 0;
            i += n;
        }
        if good {
            self.take(i);
        } else {
            self.fail();
        }
    }

    /// Goes into an object.
    pub fn object(&mut self) -> bool {
        self.open(b'{')
    }

    /// Goes into an array.
    pub fn array(&mut self) -> bool {
        self.open(b'[')
    }

    fn open(&mut self, bracket: u8) -> bool {
        if self.peek() != bracket {
            self.fail();
            return false;
        }
        self.take(1);
        self.started = false;
        true
    }

    fn step(&mut self, closer: u8) -> bool {
        let mut c = self.peek();
        if c == closer {
            self.take(1);
            self.started = true;
            return false;
        }
        if self.started && c == b',' {
            self.take(1);
            c = self.peek();
        } else if self.started {
            c = 0;
        }
        if c == 0 || c == closer {
            self.fail();
            return false;
        }
        self.started = true;
        true
    }

    /// Stands before the next element of the array; false at its end. Take each with `value`.
    pub fn element(&mut self) -> bool {
        self.step(b']')
    }

    /// The name of the object's next member as it stands in the text, without quotes; take
    /// the value of each. None at the end.
    pub fn member(&mut self) -> Option<&'a [u8]> {
        if !self.step(b'}') {
            return None;
        }
        let name = if self.peek() == b'"' { self.quoted() } else { &[] };
        if name.is_empty() || self.peek() != b':' {
            self.fail();
            return None;
        }
        self.take(1);
        Some(&name[1..name.len() - 1])
    }

    /// Takes the next value whole and gives its text, which is empty if there is none.
    pub fn value(&mut self) -> &'a [u8] {
        self.peek();
        let whole = self.rest;
        let (mut closers, mut depth, mut wanted) = ([0; DEPTH_MAX], 0, Wanted::Value);
        while (depth > 0 || wanted != Wanted::After) && !self.bad {
            let c = self.peek();
            let key = matches!(wanted, Wanted::Key | Wanted::FirstKey);
            if depth > 0 && c == closers[depth - 1] && !matches!(wanted, Wanted::Value | Wanted::Key) {
                depth -= 1;
                self.take(1);
                wanted = Wanted::After;
            } else if wanted == Wanted::After && c == b',' {
                self.take(1);
                wanted = if closers[depth - 1] == b'}' { Wanted::Key } else { Wanted::Value };
            } else if wanted == Wanted::After || key && c != b'"' {
                self.fail();
            } else if key {
                self.quoted();
                if self.peek() == b':' {
                    self.take(1);
                } else {
                    self.fail();
                }
                wanted = Wanted::Value;
            } else if matches!(c, b'{' | b'[') && depth < DEPTH_MAX {
                closers[depth] = c + 2; // the other bracket
                depth += 1;
                self.take(1);
                wanted = if c == b'{' { Wanted::FirstKey } else { Wanted::FirstValue };
            } else {
                if c == b'"' {
                    self.quoted();
                } else {
                    self.plain();
                }
                wanted = Wanted::After;
            }
        }
        if self.bad {
            &[]
        } else {
            &whole[..whole.len() - self.rest.len()]
        }
    }

    /// Tells whether the text was well formed as far as it was read and nothing follows.
    /// Ask it after the outermost value was left.
    pub fn end(&mut self) -> bool {
        self.peek() == 0 && self.rest.is_empty() && !self.bad
    }
}

/// A value that is a whole number.
pub fn int(value: &[u8]) -> Option<i64> {
    let negative = value.first() == Some(&b'-');
    let digits = &value[negative as usize..];
    if digits.is_empty() || digits[0] == b'0' && digits.len() > 1 {
        return None;
    }
    digits.iter().try_fold(0i64, |n, &d| {
        let digit = i64::from(d.wrapping_sub(b'0'));
        let next = n.checked_mul(10).filter(|_| digit < 10)?;
        if negative {
            next.checked_sub(digit)
        } else {
            next.checked_add(digit)
        }
    })
}

/// A value that is a string, without its quotes and still escaped.
pub fn string(value: &[u8]) -> Option<&[u8]> {
    match value {
        [b'"', text @ .., b'"'] => Some(text),
        _ => None,
    }
}

/// What a string says, of its text between the quotes. An escape that is none stays as it is.
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&b| b == b'\\') {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let (character, n) = escape(rest).unwrap_or(('\\', 1));
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        rest = &rest[n..];
    }
    out.extend_from_slice(rest);
    out
}

/// The character of an escape, and how long that is. Half of a pair is U+FFFD.
fn escape(text: &[u8]) -> Option<(char, usize)> {
    let plain = match text.get(1)? {
        c @ (b'"' | b'\\' | b'/') => *c,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'u' => {
            let first = unit(text)?;
            let second = unit(&text[6..]).filter(|second| first & 0xfc00 == 0xd800 && second & 0xfc00 == 0xdc00);
            return Some(match second {
                Some(second) => (char::from_u32(0x10000 + ((first & 0x3ff) << 10 | second & 0x3ff))?, 12),
                None => (char::from_u32(first).unwrap_or('\u{fffd}'), 6),
            });
        }
        _ => return None,
    };
    Some((plain.into(), 2))
}

/// The number of an escape \u and four digits.
fn unit(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |n, &d| Some(n << 4 | char::from(d).to_digit(16)?))
}
