//! An admission policy: when the node is busy, cheap requests go first, and accounts that
//! spend their own limit fast are asked to come back. The operator's configuration says from
//! how many of the node's requests on it is busy:
//!
//!     {"busy_requests": 48}
//!
//! There is no kit for Zig: this is all that crosses the boundary, by the tables of AUTHORING.

const std = @import("std");

// The input's buffer, in memory of its own: it stays in place until a larger one is asked for.
var input: []u8 = &.{};
var output: [512]u8 = undefined;
var busy: i64 = 48;

export fn abi() u32 {
    return 1 << 16;
}

export fn buf(n: u32) ?[*]u8 {
    if (n > input.len) {
        const pages = (n + 0xffff) >> 16;
        const at = @wasmMemoryGrow(0, pages);
        if (at < 0) return null;
        const from: [*]u8 = @ptrFromInt(@as(usize, @intCast(at)) << 16);
        input = from[0 .. pages << 16];
    }
    return input.ptr;
}

const Status = enum(u8) { ok, refusal, decline };
const invalid_request = 1;
const rate_limited = 6;
const Verdict = enum(u8) { allow, deny, queue };

/// Ends an output frame whose payload is written: status u8, zero u8, kind u16, length u32.
fn frame(status: Status, kind: u16, n: usize) u64 {
    output[0] = @intFromEnum(status);
    output[1] = 0;
    std.mem.writeInt(u16, output[2..4], kind, .little);
    std.mem.writeInt(u32, output[4..8], @intCast(n), .little);
    return @as(u64, @intFromPtr(&output)) << 32 | (8 + n);
}

/// What the operator did wrong: which field, and what is wrong with it.
fn refuse(field: []const u8, msg: []const u8) u64 {
    const name = field[0..@min(field.len, 64)];
    std.mem.writeInt(u32, output[8..12], @intCast(name.len), .little);
    @memcpy(output[12..][0..name.len], name);
    @memcpy(output[12 + name.len ..][0..msg.len], msg);
    return frame(.refusal, invalid_request, 4 + name.len + msg.len);
}

const spaces = " \t\r\n";

/// The configuration is {} or an object with one whole number. The node has checked that it
/// is JSON and what config_schema says.
export fn init(n: u32) u64 {
    busy = 48;
    const text = std.mem.trim(u8, if (n == 0) "{}" else input[0..n], spaces);
    if (text.len < 2 or text[0] != '{' or text[text.len - 1] != '}') return refuse("", "want a JSON object");
    const inner = std.mem.trim(u8, text[1 .. text.len - 1], spaces);
    if (inner.len == 0) return frame(.ok, 0, 0);
    const colon = std.mem.indexOfScalar(u8, inner, ':') orelse return refuse("", "want a JSON object");
    const name = std.mem.trim(u8, inner[0..colon], spaces);
    const value = std.mem.trim(u8, inner[colon + 1 ..], spaces);
    if (!std.mem.eql(u8, name, "\"busy_requests\"")) return refuse(std.mem.trim(u8, name, "\""), "no such key; the only one is busy_requests");
    busy = std.fmt.parseInt(i64, value, 10) catch -1;
    if (busy < 0) return refuse("busy_requests", "want a whole number of requests, zero or more");
    return frame(.ok, 0, 0);
}

/// Writes a decision: verdict u8, priority i8, kind u16, retry_after_ms u32, msg.
fn decision(verdict: Verdict, priority: i8, kind: u16, retry_after_ms: u32, msg: []const u8) u64 {
    output[8] = @intFromEnum(verdict);
    output[9] = @bitCast(priority);
    std.mem.writeInt(u16, output[10..12], kind, .little);
    std.mem.writeInt(u32, output[12..16], retry_after_ms, .little);
    @memcpy(output[16..][0..msg.len], msg);
    return frame(.ok, 0, 8 + msg.len);
}

const op_decide = 32;

/// Numbers of the record, in eights of bytes from its front: the tag is the first. A node gives
/// a module of ABI 1.0 "decide/1"; these are the same in "decide/2".
const prompt_tokens = 2;
const output_max = 3;
const tokens_remaining = 7;
const tokens_per_minute = 8;
const node_requests = 11;
const numbers = 13;

export fn call(op: u32, n: u32) u64 {
    if (op != op_decide or n < 8 * numbers or n > input.len) return frame(.decline, 0, 0);
    if (!std.mem.eql(u8, input[0..7], "decide/") or input[7] < '1' or input[7] > '2') return frame(.decline, 0, 0);
    var in: [numbers]i64 = undefined;
    for (&in, 0..) |*v, i| v.* = std.mem.readInt(i64, input[8 * i ..][0..8], .little);
    if (in[node_requests] < busy) return decision(.allow, 0, 0, 0, "");
    if (in[tokens_per_minute] > 0 and in[tokens_remaining] < @divTrunc(in[tokens_per_minute], 4)) {
        return decision(.deny, 0, rate_limited, 15000, "the node is busy and this account has used most of its tokens of this minute");
    }
    const thousands = std.math.clamp(@divTrunc(in[prompt_tokens] +| in[output_max], 1000), 0, 100);
    return decision(.queue, @intCast(-thousands), 0, 0, "");
}
