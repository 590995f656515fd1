package canonical

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// The vectors are the examples of RFC 8785, sections 3.2.2 and 3.2.3 and
// appendix B.
func TestRFC8785Vectors(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{
			"section 3.2.2",
			`{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
			  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
			  "literals": [null, true, false]}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		},
		{
			"section 3.2.3, keys in UTF-16 order",
			`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"\U0001f600\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			// The number 333333333.33333329 has more digits than a double needs. The strict reader
			// refuses it, so only the writer is tested.
			got := must.Get(Marshal(json.RawMessage(test.in)))(t)
			if string(got) != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

func TestRFC8785Numbers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		bits uint64
		want string
	}{
		{0x0000000000000000, "0"}, {0x8000000000000000, "0"},
		{0x0000000000000001, "5e-324"}, {0x8000000000000001, "-5e-324"},
		{0x7fefffffffffffff, "1.7976931348623157e+308"}, {0xffefffffffffffff, "-1.7976931348623157e+308"},
		{0x4340000000000000, "9007199254740992"}, {0xc340000000000000, "-9007199254740992"},
		{0x4430000000000000, "295147905179352830000"},
		{0x44b52d02c7e14af5, "9.999999999999997e+22"}, {0x44b52d02c7e14af6, "1e+23"},
		{0x44b52d02c7e14af7, "1.0000000000000001e+23"},
		{0x444b1ae4d6e2ef4e, "999999999999999700000"}, {0x444b1ae4d6e2ef4f, "999999999999999900000"},
		{0x444b1ae4d6e2ef50, "1e+21"},
		{0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"}, {0x3eb0c6f7a0b5ed8d, "0.000001"},
		{0x41b3de4355555553, "333333333.3333332"}, {0x41b3de4355555554, "333333333.33333325"},
		{0x41b3de4355555555, "333333333.3333333"}, {0x41b3de4355555556, "333333333.3333334"},
		{0x41b3de4355555557, "333333333.33333343"},
		{0xbecbf647612f3696, "-0.0000033333333333333333"}, {0x43143ff3c1cb0959, "1424953923781206.2"},
	}
	for _, test := range tests {
		got := must.Get(Marshal(math.Float64frombits(test.bits)))(t)
		if string(got) != test.want {
			t.Errorf("%016x: got %s, want %s", test.bits, got, test.want)
		}
		if again, err := JSON(got); err != nil || !bytes.Equal(again, got) {
			t.Errorf("%s does not read back: %s, %v", got, again, err)
		}
	}
}

func TestJSONAccepts(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		` {"b":1,"a":[ ] } `:          `{"a":[],"b":1}`,
		`-0`:                          `0`,
		`-0.0e5`:                      `0`,
		`1e30`:                        `1e+30`,
		`1E2`:                         `100`,
		`0.10`:                        `0.1`,
		`9007199254740992`:            `9007199254740992`,
		`9007199254740994`:            `9007199254740994`,
		`"\ud83d\ude00"`:              `"` + "\U0001f600" + `"`,
		`"\u007f"`:                    `"` + "\x7f" + `"`,
		`{"a":{"a":1},"b":[{"a":1}]}`: `{"a":{"a":1},"b":[{"a":1}]}`,
		`"<script>&\u2028"`:           `"<script>&` + "\u2028" + `"`,
		strings.Repeat("[", MaxDepth-1) + "1" + strings.Repeat("]", MaxDepth-1): strings.Repeat("[", MaxDepth-1) + "1" + strings.Repeat("]", MaxDepth-1),
	}
	for in, want := range tests {
		got, err := JSON([]byte(in))
		if err != nil {
			t.Errorf("%.60q: %v", in, err)
		} else if string(got) != want {
			t.Errorf("%.60q: got %s, want %s", in, got, want)
		}
	}
}

func TestJSONRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in string
		want     error
	}{
		{"empty", ``, ErrSyntax},
		{"blank", "  \n", ErrSyntax},
		{"two values", `1 2`, ErrSyntax},
		{"garbage after", `{}x`, ErrSyntax},
		{"comma", `[1,]`, ErrSyntax},
		{"comment", `[1/**/]`, ErrSyntax},
		{"leading zero", `01`, ErrSyntax},
		{"plus", `+1`, ErrSyntax},
		{"NaN", `NaN`, ErrSyntax},
		{"single quotes", `{'a':1}`, ErrSyntax},
		{"byte order mark", "\ufeff{}", ErrSyntax},
		{"raw control character", "\"\n\"", ErrSyntax},
		{"unfinished", `{"a":`, ErrSyntax},
		{"duplicate key", `{"a":1,"a":2}`, ErrDuplicateKey},
		{"duplicate key by escape", `{"a":1,"\u0061":2}`, ErrDuplicateKey},
		{"duplicate key deep", `[{"x":{"k":1,"k":1}}]`, ErrDuplicateKey},
		{"integer over 2^53", `9007199254740993`, ErrNumber},
		{"negative over 2^53", `-9007199254740993`, ErrNumber},
		{"too large", `1e400`, ErrNumber},
		{"too small", `1e-400`, ErrNumber},
		{"too precise", `0.1000000000000000055511151231257827`, ErrNumber},
		{"absurd exponent", `1e99999999999999999999`, ErrNumber},
		{"number in a key's value", `{"a":{"b":[1e400]}}`, ErrNumber},
		{"lone high surrogate", `"\ud800"`, ErrUTF8},
		{"lone low surrogate", `"\udc00x"`, ErrUTF8},
		{"reversed surrogates", `"\ude00\ud83d"`, ErrUTF8},
		{"lone surrogate in a key", `{"\ud800":1}`, ErrUTF8},
		{"invalid byte", "\"\xff\"", ErrUTF8},
		{"overlong", "\"\xc0\x80\"", ErrUTF8},
		{"encoded surrogate", "\"\xed\xa0\x80\"", ErrUTF8},
		{"cut off", "\"\xe2\x82\"", ErrUTF8},
		{"NUL", `"a\u0000b"`, ErrNUL},
		{"NUL in a key", `{"\u0000":1}`, ErrNUL},
		{"too deep", strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1), ErrTooDeep},
		{"far too deep", strings.Repeat(`{"a":`, 5000), ErrTooDeep},
		{"too long", `"` + strings.Repeat("a", MaxSize) + `"`, ErrTooLarge},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := JSON([]byte(test.in))
			if !errors.Is(err, test.want) {
				t.Errorf("got %.60s, %v; want %v", got, err, test.want)
			}
			if err != nil && len(err.Error()) > 400 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestMaxSizeExactly(t *testing.T) {
	t.Parallel()
	text := []byte(`"` + strings.Repeat("a", MaxSize-2) + `"`)
	if _, err := JSON(text); err != nil {
		t.Errorf("%d bytes: %v", len(text), err)
	}
}

func TestErrorNamesThePlace(t *testing.T) {
	t.Parallel()
	_, err := JSON([]byte(`{"a":[0,{"b":9007199254740993}]}`))
	if err == nil || !strings.Contains(err.Error(), "/a/1/b") {
		t.Errorf("got %v", err)
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	// SHA-256 of the two bytes {}.
	const want = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
	got, err := DigestOf(map[string]int{})
	if err != nil || got != want {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := DigestOf(math.Inf(1)); err == nil {
		t.Error("an infinite number has a digest")
	}
}

// FuzzJSON: accepted text is a fixed point and has the same meaning for another parser, and no
// input causes a panic.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"b":1,"a":[null,true,1e30,-0,0.1,"\ud83d\ude00"]}`, `1e400`, `9007199254740993`,
		`{"a":1,"a":1}`, `"\u0000"`, `[[[[[]]]]]`, "\"\xff\"", `"\ud800"`, `{"\u20ac":1,"\r":2}`, `5e-324`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		once, err := JSON(text)
		if err != nil {
			return
		}
		twice, err := JSON(once)
		if err != nil {
			t.Fatalf("%q is accepted, its form %q is not: %v", text, once, err)
		}
		if !bytes.Equal(once, twice) {
			t.Fatalf("%q, then %q", once, twice)
		}
		var was, is any
		if err := json.Unmarshal(text, &was); err != nil {
			t.Fatalf("%q: encoding/json refuses it: %v", text, err)
		}
		must.Do(t, json.Unmarshal(once, &is))
		a, _ := json.Marshal(was)
		b, _ := json.Marshal(is)
		if normal(a) != normal(b) {
			t.Fatalf("%q means %s, its form means %s", text, a, b)
		}
	})
}

// normal writes negative zero as 0, as RFC 8785 does.
func normal(text []byte) string {
	var v any
	_ = json.Unmarshal(text, &v)
	return zero(v)
}

func zero(v any) string {
	switch v := v.(type) {
	case float64:
		if v == 0 {
			return "0"
		}
	case []any:
		parts := make([]string, 0, len(v))
		for _, item := range v {
			parts = append(parts, zero(item))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case map[string]any:
		keyed := make(map[string]string, len(v))
		for k, item := range v {
			keyed[k] = zero(item)
		}
		text, _ := json.Marshal(keyed)
		return string(text)
	}
	text, _ := json.Marshal(v)
	return string(text)
}
