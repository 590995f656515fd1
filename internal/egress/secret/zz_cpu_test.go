package secret
import ("bytes";"io";"testing")
func BenchmarkGuess(b *testing.B) {
	x := used(b, "ghp_0123456789abcdefghijABCDEFGHIJ")
	for _, g := range []string{"ghpq", "ghp_", "HIJ\n","HIK\n", "fghijABC\n", "fghijABD\n", `\u0067\u0068`, `\u0067\u0069`} {
		text := bytes.Repeat([]byte(g), (1<<20)/len(g))
		b.Run(g, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() { io.Copy(io.Discard, x.Scrub(bytes.NewReader(text))) }
		})
	}
}
