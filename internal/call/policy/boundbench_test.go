package policy

import "testing"

func BenchmarkBoundDigest(b *testing.B) {
	p := aPlan() // the plan of a tool that reads a file
	p.Facts.Paths, p.Facts.Exec, p.Facts.EgressHosts, p.Facts.Secrets, p.Facts.SandboxLayers, p.Facts.EgressMode = nil, nil, nil, nil, nil, ""
	b.ReportAllocs()
	for b.Loop() {
		BoundDigest(&p)
	}
}

func BenchmarkEnvironmentChanged(b *testing.B) {
	p, q := aPlan(), aPlan()
	b.ReportAllocs()
	for b.Loop() {
		if EnvironmentChanged(&p, &q) {
			b.Fatal("changed")
		}
	}
}
