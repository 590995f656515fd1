package declared

import "testing"

// TestMetaKeys: only keys that callers may set can be declared.
func TestMetaKeys(t *testing.T) {
	t.Parallel()
	for keys, ok := range map[[2]string]bool{
		{"com.example/tenant", "x"}:                  true,
		{"traceparent", "com.example/a.b_c-d"}:       true,
		{"com.example/tenant", "com.example/Tenant"}: false,
		{"", "x"}:              false,
		{"progressToken", "x"}: false,
		{"io.modelcontextprotocol/logLevel", "x"}: false,
		{"dev.palyra/attestation", "x"}:           false,
		{"MCP.example/x", "y"}:                    false,
		{"1com/x", "y"}:                           false,
		{"com.example/", "y"}:                     false,
		{"com.example/a/b", "y"}:                  false,
		{"com example", "y"}:                      false,
	} {
		if err := (Server{Meta: keys[:]}).checkMeta(); (err == nil) != ok {
			t.Errorf("%q: %v", keys, err)
		}
	}
}
