//! An admission policy: when the node is busy, cheap requests go first, and accounts that
//! spend their own limit fast are asked to come back. The operator's configuration says
//! from how many of the node's requests on it is busy:
//!
//!     {"busy_requests": 48}
#![no_std]

use corenode::*;

corenode::module!(admission, CheapFirst);

struct CheapFirst {
    busy: i64,
}

impl Configure for CheapFirst {
    fn configure(config: &[u8]) -> Result<Self, Stop> {
        let (mut j, mut busy) = (Json::new(config), 48);
        j.object();
        while let Some(name) = j.member() {
            let value = int(j.value()).filter(|&n| n >= 0);
            if name != b"busy_requests" {
                return Err(refuse(name, "no such key; the only one is busy_requests"));
            }
            busy = value.ok_or(refuse(name, "want a whole number of requests, zero or more"))?;
        }
        if j.end() {
            Ok(CheapFirst { busy })
        } else {
            Err(refuse("", "want a JSON object"))
        }
    }
}

impl Admission for CheapFirst {
    fn decide(&self, input: &AdmissionInput) -> Option<Decision> {
        if input.node_requests < self.busy {
            return Some(Decision::default()); // which allows
        }
        if input.tokens_per_minute > 0 && input.tokens_remaining < input.tokens_per_minute / 4 {
            return Some(Decision {
                verdict: verdict::DENY,
                kind: kind::RATE_LIMITED,
                retry_after_ms: 15000,
                msg: "the node is busy and this account has used most of its tokens of this minute".into(),
                ..Decision::default()
            });
        }
        let thousands = input.prompt_tokens.saturating_add(input.output_max) / 1000;
        Some(Decision { verdict: verdict::QUEUE, priority: -thousands.clamp(-100, 100) as i8, ..Decision::default() })
    }
}
