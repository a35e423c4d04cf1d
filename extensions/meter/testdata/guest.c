// A guest without a library: byte loops, a frame-like call, block copies and
// recursion, as translators have them.
#define EXPORT(name) __attribute__((export_name(#name)))
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

static u8 in[1 << 20];
static u8 out[1 << 21];

EXPORT(buf) u8 *buf(void) { return in; }
EXPORT(out) u8 *outbuf(void) { return out; }
EXPORT(empty) void empty(void) {}

// escape copies n bytes as the inside of a JSON string and returns how many it wrote.
EXPORT(escape) u32 escape(u32 n) {
  u32 k = 0;
  for (u32 i = 0; i < n; i++) {
    u8 c = in[i];
    if (c == '"' || c == '\\') {
      out[k++] = '\\';
      out[k++] = c;
    } else if (c < 0x20) {
      out[k++] = '\\'; out[k++] = 'u'; out[k++] = '0'; out[k++] = '0';
      out[k++] = "0123456789abcdef"[c >> 4];
      out[k++] = "0123456789abcdef"[c & 15];
    } else {
      out[k++] = c;
    }
  }
  return k;
}

static __attribute__((noinline)) u32 skip_string(u32 i, u32 n) {
  while (i < n) {
    if (in[i] == '\\') i += 2;
    else if (in[i++] == '"') break;
  }
  return i;
}

static u32 value(u32 i, u32 n, u32 *count);

static __attribute__((noinline)) u32 container(u32 i, u32 n, u8 close, u32 *count) {
  while (i < n && in[i] != close) {
    u8 c = in[i];
    if (c == ',' || c == ':' || c == ' ') i++;
    else i = value(i, n, count);
  }
  return i + 1;
}

static __attribute__((noinline)) u32 value(u32 i, u32 n, u32 *count) {
  u8 c = in[i++];
  ++*count;
  if (c == '"') return skip_string(i, n);
  if (c == '{') return container(i, n, '}', count);
  if (c == '[') return container(i, n, ']', count);
  while (i < n && in[i] != ',' && in[i] != '}' && in[i] != ']') i++;
  return i;
}

// scan walks a JSON document and counts its values.
EXPORT(scan) u32 scan(u32 n) {
  u32 count = 0;
  value(0, n, &count);
  return count;
}

static __attribute__((noinline)) u8 *put(u8 *p, const u8 *s, u32 n) {
  __builtin_memcpy(p, s, n);
  return p + n;
}

// frame turns (kind u8, flags u8, index u16, len u32, payload) records into text.
EXPORT(frame) u32 frame(u32 n) {
  u8 *p = out;
  for (u32 i = 0; i + 8 <= n;) {
    u32 len = *(u32 *)(in + i + 4);
    p = put(p, (const u8 *)"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"", 50);
    p = put(p, in + i + 8, len);
    p = put(p, (const u8 *)"\"}}]}\n\n", 7);
    i += 8 + ((len + 7) & ~7u);
  }
  return p - out;
}

// copy moves n bytes k times.
EXPORT(copy) u32 copy(u32 n, u32 k) {
  for (u32 i = 0; i < k; i++) {
    __builtin_memcpy(out + (i & 7), in, n);
    __asm__ volatile("" ::: "memory");
  }
  return out[0];
}

EXPORT(hash) u64 hash(u32 n) {
  u64 h = 14695981039346656037ull;
  for (u32 i = 0; i < n; i++) h = (h ^ in[i]) * 1099511628211ull;
  return h;
}

EXPORT(fib) u32 fib(u32 n) {
  u32 (*volatile self)(u32) = fib;
  return n < 2 ? n : self(n - 1) + self(n - 2);
}

EXPORT(deep) u32 deep(u32 n) { 
  volatile u32 x = n;
  return n == 0 ? 0 : 1 + deep(x - 1);
}

EXPORT(sort) u64 sort(u32 n) {
  for (u32 i = 1; i < n; i++) {
    u8 c = in[i];
    u32 k = i;
    while (k > 0 && in[k - 1] > c) { in[k] = in[k - 1]; k--; }
    in[k] = c;
  }
  return hash(n);
}
