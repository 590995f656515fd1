/* checksum is a tool by the palyra ABI, without a library: palyrad asks palyra_alloc for a
 * place, writes the input there, and calls run. Build it with ../build.sh. */

typedef unsigned char byte;
typedef unsigned int u32;
typedef unsigned long long u64;

__attribute__((import_module("palyra:plugins/host-capabilities@0.1.0"), import_name("log")))
void host_log(int level, const char *line, u32 size);

/* Each call is a new instance, so nothing is ever freed. */
static byte heap[1 << 20] __attribute__((aligned(8)));
static u32 used;

byte *palyra_alloc(u32 size) {
  byte *at = heap + used;
  if (size > sizeof heap - 8 - used) __builtin_trap();
  used += (size + 7) & ~7u;
  return at;
}

static int digit(byte c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  __builtin_trap();
}

static u32 four(const byte *at) {
  return (u32)(digit(at[0]) << 12 | digit(at[1]) << 8 | digit(at[2]) << 4 | digit(at[3]));
}

static byte *put_rune(byte *to, u32 r) {
  if (r < 0x80) {
    *to++ = (byte)r;
  } else if (r < 0x800) {
    *to++ = (byte)(0xc0 | r >> 6), *to++ = (byte)(0x80 | (r & 63));
  } else if (r < 0x10000) {
    *to++ = (byte)(0xe0 | r >> 12), *to++ = (byte)(0x80 | (r >> 6 & 63)), *to++ = (byte)(0x80 | (r & 63));
  } else {
    *to++ = (byte)(0xf0 | r >> 18), *to++ = (byte)(0x80 | (r >> 12 & 63)), *to++ = (byte)(0x80 | (r >> 6 & 63)),
    *to++ = (byte)(0x80 | (r & 63));
  }
  return to;
}

/* text reads a JSON string into its own place, where it only gets shorter, and returns its
 * size. palyrad has checked the input against the schema: it is JSON, and there is one
 * string in it. */
static u32 text(byte *at, const byte *end) {
  byte *to = at, *begin = at;
  for (; at < end && *at != '"'; at++) {
    if (*at != '\\') {
      *to++ = *at;
      continue;
    }
    switch (*++at) {
    case 'b': *to++ = '\b'; break;
    case 'f': *to++ = '\f'; break;
    case 'n': *to++ = '\n'; break;
    case 'r': *to++ = '\r'; break;
    case 't': *to++ = '\t'; break;
    case 'u': {
      u32 r = four(at + 1);
      at += 4;
      if (r >= 0xd800 && r < 0xdc00 && at[1] == '\\' && at[2] == 'u') {
        r = 0x10000 + ((r & 0x3ff) << 10) + (four(at + 3) & 0x3ff);
        at += 6;
      }
      to = put_rune(to, r);
      break;
    }
    default: *to++ = *at;
    }
  }
  return (u32)(to - begin);
}

static u32 crc32(const byte *at, u32 size) {
  u32 sum = ~0u;
  while (size--) {
    sum ^= *at++;
    for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (0xedb88320u & -(sum & 1));
  }
  return ~sum;
}

static byte *put(byte *to, const char *text) {
  while (*text) *to++ = (byte)*text++;
  return to;
}

u64 run(byte *input, u32 size) {
  static const char hex[] = "0123456789abcdef";
  byte *end = input + size, *at = input;
  while (at < end && *at != ':') at++;
  while (at < end && *at != '"') at++;
  if (at == end) __builtin_trap();
  u32 bytes = text(at + 1, end), sum = crc32(at + 1, bytes);

  byte *result = palyra_alloc(64), *to = put(result, "{\"crc32\":\"");
  for (int shift = 28; shift >= 0; shift -= 4) *to++ = (byte)hex[sum >> shift & 15];
  to = put(to, "\",\"bytes\":");
  u32 unit = 1;
  while (bytes / unit >= 10) unit *= 10;
  for (; unit; unit /= 10) *to++ = (byte)('0' + bytes / unit % 10);
  to = put(to, "}");

  static const char line[] = "a checksum was made";
  host_log(1, line, sizeof line - 1);
  return (u64)(u32)result << 32 | (u32)(to - result);
}
