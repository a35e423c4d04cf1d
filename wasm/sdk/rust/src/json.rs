//! JSON: enough to find values in a body or a configuration.

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
/// It knows where values end, at any depth up to 128. It does not look into numbers and
/// strings: the node checks the whole body that comes out.
pub struct Json<'a> {
    rest: &'a [u8],
    started: bool,
    bad: bool,
}

const DEPTH_MAX: usize = 128;

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
        while i < self.rest.len() && self.rest[i] >= b' ' {
            match self.rest[i] {
                b'"' => return self.take(i + 1),
                b'\\' => i += 2,
                _ => i += 1,
            }
        }
        self.fail();
        &[]
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
        let (mut closers, mut depth) = ([0; DEPTH_MAX], 0);
        loop {
            match self.peek() {
                b'"' => {
                    self.quoted();
                }
                c @ (b'{' | b'[') if depth < DEPTH_MAX => {
                    closers[depth] = if c == b'{' { b'}' } else { b']' };
                    depth += 1;
                    self.take(1);
                }
                c @ (b'}' | b']') if depth > 0 && closers[depth - 1] == c => {
                    depth -= 1;
                    self.take(1);
                }
                b',' | b':' if depth > 0 => {
                    self.take(1);
                }
                b'-' | b'0'..=b'9' | b'a'..=b'z' => {
                    let plain = |b: &u8| matches!(b, b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E');
                    let n = self.rest.iter().position(|b| !plain(b)).unwrap_or(self.rest.len());
                    self.take(n);
                }
                _ => self.fail(),
            }
            if self.bad {
                return &[];
            }
            if depth == 0 {
                return &whole[..whole.len() - self.rest.len()];
            }
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
        if negative { next.checked_sub(digit) } else { next.checked_add(digit) }
    })
}

/// A value that is a string, without its quotes and still escaped.
pub fn string(value: &[u8]) -> Option<&[u8]> {
    match value {
        [b'"', text @ .., b'"'] => Some(text),
        _ => None,
    }
}
