package encoded

import (
	"slices"
	"strings"
	"testing"
)

// dumps are the outputs of programs for "xxghp_0123456789>>>???abcdef".
var dumps = map[string]string{
	"hexdump -C": `00000000  78 78 67 68 70 5f 30 31  32 33 34 35 36 37 38 39  |xxghp_0123456789|
00000010  3e 3e 3e 3f 3f 3f 61 62  63 64 65 66              |>>>???abcdef|
0000001c
`,
	"hexdump -x": `0000000    7878    6867    5f70    3130    3332    3534    3736    3938
0000010    3e3e    3f3e    3f3f    6261    6463    6665                
000001c
`,
	"xxd": `00000000: 7878 6768 705f 3031 3233 3435 3637 3839  xxghp_0123456789
00000010: 3e3e 3e3f 3f3f 6162 6364 6566            >>>???abcdef
`,
	"xxd -g1 -c8": `00000000: 78 78 67 68 70 5f 30 31  xxghp_01
00000008: 32 33 34 35 36 37 38 39  23456789
00000010: 3e 3e 3e 3f 3f 3f 61 62  >>>???ab
00000018: 63 64 65 66              cdef
`,
	"xxd -e": `00000000: 68677878 31305f70 35343332 39383736  xxghp_0123456789
00000010: 3f3e3e3e 62613f3f 66656463           >>>???abcdef
`,
	"xxd -e, short": `00000000: 68677878 31305f70 35343332 39383736  xxghp_0123456789
00000010: 3f3e3e3e 62613f3f 66656463     2121  >>>???abcdef!!
`,
	"xxd -g0": `00000000: 78786768705f30313233343536373839  xxghp_0123456789
00000010: 3e3e3e3f3f3f616263646566          >>>???abcdef
`,
	"od -A x -t x1z": `000000 78 78 67 68 70 5f 30 31 32 33 34 35 36 37 38 39  >xxghp_0123456789<
000010 3e 3e 3e 3f 3f 3f 61 62 63 64 65 66              >>>>???abcdef<
00001c
`,
	"od -tx8": `0000000 31305f7068677878 3938373635343332
0000020 62613f3f3f3e3e3e 0000000066656463
0000034
`,
}

func TestDump(t *testing.T) {
	t.Parallel()
	const secret = "ghp_0123456789>>>???abcdef"
	for name, text := range dumps {
		found := false
		for r := range Dump([]byte("$ "+name+"\n"+text+"$ "), 8) {
			at := strings.Index(string(r.Text), secret)
			if at < 0 {
				continue
			}
			found = true
			// The place ends with the line, so that no characters next to the digits remain.
			from, to := r.Place(at, at+len(secret))
			from, to = from-len("$ "+name+"\n"), to-len("$ "+name+"\n")
			if rest := text[to:]; rest[0] != '\n' || strings.Contains(rest, "abcdef") || strings.Contains(text[:from], "ghp") {
				t.Errorf("%s: what is found ends before %q", name, rest)
			}
		}
		if !found {
			t.Errorf("%s is not read", name)
		}
	}
	for _, text := range []string{"", "2026-11-28 12:00:00 started", "cafe babe in a sentence", "1234: a list", "0000000", "12345678 1 2 3", strings.Repeat("the quick brown fox\n", 9)} {
		for r := range Dump([]byte(text), 8) {
			t.Errorf("%q is read as %q", text, r.Text)
		}
	}
}

func TestJoined(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"key aGVs.bG8g.dGhl.cmU= end":   {"keyaGVsbG8gdGhlcmU"},
		"a,G,V,s,b,G,8,g,d,G,h,l":       {"aGVsbG8gdGhl"},
		"aG-Vs-bG-8g-dG-hl-++":          {"aGVsbG8gdGhl++"},
		"aG+Vs+bG+8g+dG+hl+__":          {"aGVsbG8gdGhl__"},
		"68_65_6c_6c_6f_21_21_21":       {"68656c6c6f212121"},
		"aGVs\n  bG8g\n  dGhl":          {"aGVsbG8gdGhl"},
		"aGVs......bG8g......dGhl":      nil, // too many characters between two groups
		"aGVsbG8gdGhlcmU=":              nil, // without separators
		"every word has another length": nil,
	} {
		var got []string
		for r := range Joined([]byte(text), 8) {
			for part := range strings.SplitSeq(strings.Trim(string(r.Text), "\n"), "\n") {
				got = append(got, part)
			}
			if from, to := r.Place(0, 1); text[from:to] != string(r.Text[:1]) {
				t.Errorf("%q: the first character stands at %d to %d", text, from, to)
			}
		}
		for _, part := range want {
			if !slices.Contains(got, part) {
				t.Errorf("%q is joined as %q, want %q", text, got, part)
			}
		}
		if want == nil && len(got) > 0 {
			t.Errorf("%q is joined as %q", text, got)
		}
	}
}
