// A libcuda for tests: one device whose memory is the host's and whose only kernel is the
// one called grow, which multiplies the words at its parameter by 3 and adds 1. Every
// function checks what it is given, and notes in a log what it cannot accept.
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID = 1, NO_MEMORY = 2, BAD_PTX = 218, NOT_FOUND = 500, ILLEGAL = 700 };
enum { STREAM = 0x5712ea00, EVENT = 0xe7e27000, MODULE = 0x30d01e00, FUNCTION = 0xf0c71000, GRAPH = 0x96a90000, EXEC = 0xe8ec0000 };
// KEPT is what the context takes with its first event and keeps: drivers do not give all back either.
enum { TOTAL = 256 << 20, KEPT = 2 << 20, NODES = 16, CHUNKS = 64 };

static char notes[1 << 16];
static int context_alive, fail_next;
static __thread void *current;
static char the_context;
static int sticky;
static volatile int hung;

static void note(const char *format, ...) {
  va_list a;
  va_start(a, format);
  size_t n = strlen(notes);
  vsnprintf(notes + n, sizeof notes - n, format, a);
  va_end(a);
}
const char *standin_notes(void) { return notes; }
void standin_fail(int code) { fail_next = code; }
void standin_lose(void) { sticky = ILLEGAL; }
// standin_hang says whether a context waits before it is destroyed, as for a kernel that does not end.
void standin_hang(int on) { hung = on; }

#define WANT(what)                                          \
  do {                                                      \
    if (!(what)) { note("%s: not " #what "\n", __func__); return INVALID; } \
  } while (0)
// HERE holds in every function that works on a context.
#define HERE                                                     \
  do {                                                           \
    WANT(context_alive && current == &the_context);              \
    if (sticky) return sticky;                                   \
    if (fail_next) { int f = fail_next; fail_next = 0; return f; } \
  } while (0)

static struct { char *at; size_t bytes; } chunks[CHUNKS];
static size_t used, kept;
static char *inside(uint64_t p, size_t n) {
  for (int i = 0; i < CHUNKS; i++)
    if (chunks[i].at && (char *)p >= chunks[i].at && (char *)p + n <= chunks[i].at + chunks[i].bytes) return (char *)p;
  note("%zu bytes at %p are not the device's\n", n, (void *)p);
  sticky = ILLEGAL;
  return 0;
}

typedef struct { int kind; uint64_t dst, src; unsigned char value; size_t n; int threads; } work;
typedef struct { uint64_t magic; int count; work nodes[NODES]; } graph;
typedef struct { uint64_t magic; int recorded; } event;
typedef struct { uint64_t magic; graph *capture; } stream;

static int perform(work w) {
  if (w.kind == 0) memmove((void *)w.dst, (void *)w.src, w.n);
  if (w.kind == 1) memset((void *)w.dst, w.value, w.n);
  if (w.kind == 2) {
    uint32_t *v = (uint32_t *)inside(w.dst, 4 * w.threads);
    if (!v) return sticky;
    for (int i = 0; i < w.threads; i++) v[i] = 3 * v[i] + 1;
  }
  return OK;
}
static int queue(stream *s, work w) {
  if (!s->capture) return perform(w);
  WANT(s->capture->count < NODES);
  s->capture->nodes[s->capture->count++] = w;
  return OK;
}

int cuInit(unsigned flags) { WANT(flags == 0); return OK; }
int cuGetErrorString(int code, const char **text) {
  static char said[64];
  snprintf(said, sizeof said, "the stand-in says %d", code);
  *text = said;
  return OK;
}
int cuDeviceGet(int *d, int ordinal) { WANT(ordinal == 0); *d = 7; return OK; }
int cuDeviceGetName(char *name, int n, int d) { WANT(d == 7 && n >= 16); strcpy(name, "stand-in"); return OK; }
int cuDeviceGetAttribute(int *v, int attribute, int d) {
  WANT(d == 7 && (attribute == 75 || attribute == 76));
  *v = attribute == 75 ? 8 : 6;
  return OK;
}
int cuCtxCreate_v2(void **c, unsigned flags, int d) { WANT(d == 7 && flags == 4 && !context_alive); context_alive = 1, sticky = 0; *c = current = &the_context; return OK; }
int cuCtxDestroy_v2(void *c) {
  WANT(c == &the_context && context_alive);
  while (hung) usleep(1000);
  for (int i = 0; i < CHUNKS; i++) { free(chunks[i].at); chunks[i].at = 0; }
  context_alive = 0, used = kept = 0;
  return sticky;
}
int cuCtxSetCurrent(void *c) { WANT(c == &the_context && context_alive); current = c; return OK; }
int cuMemGetInfo_v2(size_t *free, size_t *total) { HERE; *free = TOTAL - used; *total = TOTAL; return OK; }
int cuMemAlloc_v2(uint64_t *p, size_t n) {
  HERE;
  if (n > TOTAL - used) return NO_MEMORY;
  for (int i = 0; i < CHUNKS; i++)
    if (!chunks[i].at) {
      chunks[i].at = aligned_alloc(256, (n + 255) / 256 * 256), chunks[i].bytes = n;
      used += n, *p = (uint64_t)chunks[i].at;
      return OK;
    }
  return NO_MEMORY;
}
int cuMemFree_v2(uint64_t p) {
  HERE;
  for (int i = 0; i < CHUNKS; i++)
    if (p && chunks[i].at == (char *)p) { free(chunks[i].at), chunks[i].at = 0, used -= chunks[i].bytes; return OK; }
  return INVALID;
}
int cuMemHostAlloc(void **p, size_t n, unsigned flags) { HERE; WANT(flags == 0); *p = malloc(n); return OK; }
int cuMemFreeHost(void *p) { HERE; free(p); return OK; }

static char image[4096];
int cuModuleLoadDataEx(uint64_t *m, const char *text, unsigned n, int *options, void **values) {
  HERE;
  WANT(n == 2 && options[0] == 5 && options[1] == 6 && (uint64_t)values[1] >= 1024 && strlen(text) < sizeof image);
  if (strstr(text, "frobnicate")) { strcpy(values[0], "no frobnicate here"); return BAD_PTX; }
  strcpy(image, text), *m = MODULE;
  return OK;
}
int cuModuleGetFunction(uint64_t *f, uint64_t m, const char *name) {
  HERE;
  WANT(m == MODULE);
  if (strcmp(name, "grow") || !strstr(image, name)) return NOT_FOUND;
  *f = FUNCTION;
  return OK;
}
int cuFuncGetParamInfo(uint64_t f, size_t i, size_t *offset, size_t *size) {
  HERE;
  WANT(f == FUNCTION);
  if (i > 0) return INVALID;
  *offset = 0, *size = 8;
  return OK;
}
int cuFuncSetAttribute(uint64_t f, int attribute, int value) { HERE; WANT(f == FUNCTION && attribute == 8 && value == 65536); return OK; }
int cuLaunchKernel(uint64_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   stream *s, void **params, void **extra) {
  HERE;
  WANT(f == FUNCTION && gx == 1 && gy == 1 && gz == 1 && by == 1 && bz == 1 && shared == 0 && s->magic == STREAM && !params);
  WANT((uint64_t)extra[0] == 1 && (uint64_t)extra[2] == 2 && *(size_t *)extra[3] == 8 && !extra[4]);
  return queue(s, (work){.kind = 2, .dst = *(uint64_t *)extra[1], .threads = bx});
}
int cuStreamCreate(stream **s, unsigned flags) { HERE; WANT(flags == 1); *s = calloc(1, sizeof **s); (*s)->magic = STREAM; return OK; }
int cuStreamDestroy_v2(stream *s) { HERE; WANT(s->magic == STREAM); free(s); return OK; }
int cuStreamSynchronize(stream *s) { HERE; WANT(s->magic == STREAM && !s->capture); return OK; }
int cuStreamBeginCapture_v2(stream *s, int mode) {
  HERE;
  WANT(s->magic == STREAM && mode == 2 && !s->capture);
  s->capture = calloc(1, sizeof(graph)), s->capture->magic = GRAPH;
  return OK;
}
int cuStreamEndCapture(stream *s, graph **g) { HERE; WANT(s->magic == STREAM && s->capture); *g = s->capture, s->capture = 0; return OK; }
int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t n, stream *s) {
  HERE;
  WANT(s->magic == STREAM);
  return inside(dst, n) ? queue(s, (work){.dst = dst, .src = (uint64_t)src, .n = n}) : sticky;
}
int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t n, stream *s) {
  HERE;
  WANT(s->magic == STREAM);
  return inside(src, n) ? queue(s, (work){.dst = (uint64_t)dst, .src = src, .n = n}) : sticky;
}
int cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t n, stream *s) {
  HERE;
  WANT(s->magic == STREAM);
  return inside(src, n) && inside(dst, n) ? queue(s, (work){.dst = dst, .src = src, .n = n}) : sticky;
}
int cuMemsetD8Async(uint64_t dst, unsigned char value, size_t n, stream *s) {
  HERE;
  WANT(s->magic == STREAM);
  return inside(dst, n) ? queue(s, (work){.kind = 1, .dst = dst, .value = value, .n = n}) : sticky;
}
int cuEventCreate(event **e, unsigned flags) {
  HERE;
  WANT(flags == 0);
  if (!kept) used += kept = KEPT;
  *e = calloc(1, sizeof **e), (*e)->magic = EVENT;
  return OK;
}
int cuEventDestroy_v2(event *e) { HERE; free(e); return OK; }
int cuEventRecord(event *e, stream *s) { HERE; WANT(e->magic == EVENT && s->magic == STREAM); e->recorded = 1; return OK; }
int cuEventQuery(event *e) { HERE; WANT(e->magic == EVENT && e->recorded); return OK; }
int cuEventElapsedTime(float *ms, event *a, event *b) { HERE; WANT(a->magic == EVENT && b->magic == EVENT && a != b); *ms = 1.5; return OK; }
int cuGraphInstantiateWithFlags(graph **e, graph *g, unsigned long long flags) {
  HERE;
  WANT(g->magic == GRAPH && flags == 0);
  *e = malloc(sizeof **e), **e = *g, (*e)->magic = EXEC;
  return OK;
}
int cuGraphLaunch(graph *e, stream *s) {
  HERE;
  WANT(e->magic == EXEC && s->magic == STREAM);
  for (int i = 0, code; i < e->count; i++)
    if ((code = perform(e->nodes[i]))) return code;
  return OK;
}
int cuGraphExecDestroy(graph *e) { HERE; WANT(e->magic == EXEC); free(e); return OK; }
int cuGraphDestroy(graph *g) { HERE; WANT(g->magic == GRAPH); free(g); return OK; }

// cuTensorMapEncodeTiled writes its arguments into the map, in order.
int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *at, const uint64_t *dims, const uint64_t *strides,
                           const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill) {
  HERE;
  WANT((uint64_t)map % 64 == 0 && rank >= 1 && rank <= 5 && interleave == 0 && fill == 0 && promotion >= 0 && promotion <= 3);
  uint64_t *m = map;
  memset(m, 0, 128);
  m[0] = type, m[1] = rank, m[2] = (uint64_t)at, m[3] = swizzle;
  for (uint32_t i = 0; i < rank && i < 3; i++) {
    WANT(steps[i] == 1);
    m[4 + i] = dims[i], m[10 + i] = box[i];
    if (i + 1 < rank) m[7 + i] = strides[i];
  }
  return OK;
}
