//! What a module may ask of the node. A function is imported only where it is used.

pub const DEBUG: i32 = 0;
pub const INFO: i32 = 1;
pub const WARN: i32 = 2;
pub const ERROR: i32 = 3;

#[cfg(target_arch = "wasm32")]
mod imported {
    #[link(wasm_import_module = "corenode")]
    extern "C" {
        pub fn log(level: i32, text: *const u8, n: usize);
        pub fn metric(id: i32, delta: i64);
    }
}

/// Writes a line into the node's log.
pub fn log(level: i32, line: impl AsRef<[u8]>) {
    let line = line.as_ref();
    #[cfg(target_arch = "wasm32")]
    unsafe {
        imported::log(level, line.as_ptr(), line.len())
    };
    let _ = (level, line);
}

/// Adds to one of the sixteen counters, 0 to 15, that appear in the node's metrics.
pub fn count(id: i32, delta: i64) {
    #[cfg(target_arch = "wasm32")]
    unsafe {
        imported::metric(id, delta)
    };
    let _ = (id, delta);
}
