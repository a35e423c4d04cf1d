// The memory of a module, for asc --runtime: one arena, whose end moves up with every
// allocation and back after each call. There is no garbage collector.

// Before an object stand its room u32, and what the language asks for: the id of its class
// u32, and its size u32. What the compiler puts below the arena has no room but its size.
const HEADER: usize = 12;

// @ts-ignore: decorator
@lazy let top: usize = __heap_base;
// @ts-ignore: decorator
@lazy let mark: usize = __heap_base;
// @ts-ignore: decorator
@lazy let sealed: bool = false;

// Makes all that is there stay.
export function keep(): void {
  mark = top;
}

// Makes all that is there stay, and as large as its room: what outgrows that would lie in part where
// reset gives it back, and traps. What is made later and put into that room is given back, too.
export function seal(): void {
  keep();
  sealed = true;
}

// Gives back what was taken since keep.
export function reset(): void {
  top = mark;
}

function reserve(end: usize): void {
  const have = <usize>memory.size() << 16;
  if (end < top || (end > have && memory.grow(<i32>((end - have + 0xffff) >> 16)) < 0)) unreachable();
  top = end;
}

// @ts-ignore: decorator
@unsafe @global
export function __alloc(size: usize): usize {
  const at = (top + HEADER + 7) & ~7;
  if (size > 0x7fff0000) unreachable();
  reserve(at + size);
  store<u32>(at - HEADER, <u32>size);
  return at;
}

// @ts-ignore: decorator
@unsafe @global
export function __realloc(at: usize, size: usize): usize {
  const room = <usize>load<u32>(at < __heap_base ? at - 4 : at - HEADER);
  if (size <= room) return at;
  if (sealed && at < mark) unreachable();
  if (at + room == top) {
    if (size > 0x7fff0000) unreachable();
    reserve(at + size);
    store<u32>(at - HEADER, <u32>size);
    return at;
  }
  const moved = __alloc(max(size, 2 * room));
  memory.copy(moved - 8, at - 8, room + 8);
  return moved;
}

// @ts-ignore: decorator
@unsafe @global
export function __free(at: usize): void {}

// @ts-ignore: decorator
@unsafe @global
export function __new(size: usize, id: u32): usize {
  const at = __alloc(size);
  store<u32>(at - 8, id);
  store<u32>(at - 4, <u32>size);
  memory.fill(at, 0, size);
  return at;
}

// @ts-ignore: decorator
@unsafe @global
export function __renew(at: usize, size: usize): usize {
  const before = <usize>load<u32>(at - 4);
  const moved = __realloc(at, size);
  store<u32>(moved - 4, <u32>size);
  if (size > before) memory.fill(moved + before, 0, size - before);
  return moved;
}

// @ts-ignore: decorator
@unsafe @global
export function __link(parent: usize, child: usize, many: bool): void {}

// @ts-ignore: decorator
@unsafe @global
export function __pin(at: usize): usize {
  return at;
}

// @ts-ignore: decorator
@unsafe @global
export function __unpin(at: usize): void {}

// @ts-ignore: decorator
@unsafe @global
export function __visit(at: usize, cookie: u32): void {}

// @ts-ignore: decorator
@unsafe @global
export function __collect(): void {}
