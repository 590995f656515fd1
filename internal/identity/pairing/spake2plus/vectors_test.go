package spake2plus

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"testing"

	"filippo.io/nistec"

	"palyra/internal/core/must"
)

// vector is a test vector of RFC 9383, appendix C. All fields except the texts are hexadecimal.
type vector struct {
	name, context      string
	w0, w1, l          string
	x, shareP          string
	y, shareV          string
	z, v, tt           string
	main               string
	keyP, keyV         string
	confirmP, confirmV string
	shared             string
}

// vectors are the RFC 9383 vector for this suite and the vector of its draft
// (draft-bar-cfrg-spake2plus, which had the same key schedule). Both are for the identities
// "client" and "server".
var vectors = []vector{
	{
		name:     "RFC 9383",
		context:  "SPAKE2+-P256-SHA256-HKDF-SHA256-HMAC-SHA256 Test Vectors",
		w0:       "bb8e1bbcf3c48f62c08db243652ae55d3e5586053fca77102994f23ad95491b3",
		w1:       "7e945f34d78785b8a3ef44d0df5a1a97d6b3b460409a345ca7830387a74b1dba",
		l:        "04eb7c9db3d9a9eb1f8adab81b5794c1f13ae3e225efbe91ea487425854c7fc00f00bfedcbd09b2400142d40a14f2064ef31dfaa903b91d1faea7093d835966efd",
		x:        "d1232c8e8693d02368976c174e2088851b8365d0d79a9eee709c6a05a2fad539",
		shareP:   "04ef3bd051bf78a2234ec0df197f7828060fe9856503579bb1733009042c15c0c1de127727f418b5966afadfdd95a6e4591d171056b333dab97a79c7193e341727",
		y:        "717a72348a182085109c8d3917d6c43d59b224dc6a7fc4f0483232fa6516d8b3",
		shareV:   "04c0f65da0d11927bdf5d560c69e1d7d939a05b0e88291887d679fcadea75810fb5cc1ca7494db39e82ff2f50665255d76173e09986ab46742c798a9a68437b048",
		z:        "04bbfce7dd7f277819c8da21544afb7964705569bdf12fb92aa388059408d50091a0c5f1d3127f56813b5337f9e4e67e2ca633117a4fbd559946ab474356c41839",
		v:        "0458bf27c6bca011c9ce1930e8984a797a3419797b936629a5a937cf2f11c8b9514b82b993da8a46e664f23db7c01edc87faa530db01c2ee405230b18997f16b68",
		tt:       "38000000000000005350414b45322b2d503235362d5348413235362d484b44462d5348413235362d484d41432d534841323536205465737420566563746f72730600000000000000636c69656e740600000000000000736572766572410000000000000004886e2f97ace46e55ba9dd7242579f2993b64e16ef3dcab95afd497333d8fa12f5ff355163e43ce224e0b0e65ff02ac8e5c7be09419c785e0ca547d55a12e2d20410000000000000004d8bbd6c639c62937b04d997f38c3770719c629d7014d49a24b4f98baa1292b4907d60aa6bfade45008a636337f5168c64d9bd36034808cd564490b1e656edbe7410000000000000004ef3bd051bf78a2234ec0df197f7828060fe9856503579bb1733009042c15c0c1de127727f418b5966afadfdd95a6e4591d171056b333dab97a79c7193e341727410000000000000004c0f65da0d11927bdf5d560c69e1d7d939a05b0e88291887d679fcadea75810fb5cc1ca7494db39e82ff2f50665255d76173e09986ab46742c798a9a68437b048410000000000000004bbfce7dd7f277819c8da21544afb7964705569bdf12fb92aa388059408d50091a0c5f1d3127f56813b5337f9e4e67e2ca633117a4fbd559946ab474356c4183941000000000000000458bf27c6bca011c9ce1930e8984a797a3419797b936629a5a937cf2f11c8b9514b82b993da8a46e664f23db7c01edc87faa530db01c2ee405230b18997f16b682000000000000000bb8e1bbcf3c48f62c08db243652ae55d3e5586053fca77102994f23ad95491b3",
		main:     "4c59e1ccf2cfb961aa31bd9434478a1089b56cd11542f53d3576fb6c2a438a29",
		keyP:     "871ae3f7b78445e34438fb284504240239031c39d80ac23eb5ab9be5ad6db58a",
		keyV:     "ccd53c7c1fa37b64a462b40db8be101cedcf838950162902054e644b400f1680",
		confirmP: "926cc713504b9b4d76c9162ded04b5493e89109f6d89462cd33adc46fda27527",
		confirmV: "9747bcc4f8fe9f63defee53ac9b07876d907d55047e6ff2def2e7529089d3e68",
		shared:   "0c5f8ccd1413423a54f6c1fb26ff01534a87f893779c6e68666d772bfd91f3e7",
	},
	{
		name:     "draft-bar-cfrg-spake2plus",
		context:  "SPAKE2+-P256-SHA256-HKDF-SHA256 Test Vectors",
		w0:       "f8648104ede0eb4bf1f762d3f7022bf7d49a8b0911e47375d793830432d77be7",
		w1:       "927194a92342775ece50539994adc34563f75a3223de6299727e482a914c5f53",
		l:        "0429e83599be728c68d272985ffa4dbee8f11236cb90d9b8cac5141a528ef2947e70228df615c2629193f4b9f696b8271661ba6551959a843dbfc619aaa3c2f417",
		x:        "08ed1260208254587a9516338c581a418789204aecddbb5e93d7eaf53ddd099f",
		shareP:   "04b7f125df138ca0e39ab4be631fe4699523d3f1fff17a087775058d163f075a45c53b2b4f6430b1dd62b81e8eda730faa542323c5fc90766d853d491a66cea9cf",
		y:        "4160af9ca14b36e4810c021a3bc6151c71d09bcb29eb2c37ce24ab3585bf128a",
		shareV:   "042f259b8b8afb60be6c6ed0a21dcdbb91b9ee794c169eb93c34973dc117f1c675b075e07a9f72a41e932a884db5b32a603ce8263259ba19438fe0789fd6e31cc4",
		z:        "04361c13f083f8a4ee9ad179e13e1d1f7b707533860adde64c3b4a6c8cc5fe5a648ebd56d17a6e600340e611d56da34b364ec75457c40b9d4936025fa4db059132",
		v:        "04db83d6b9c5908cf3904b7fba6590bd6b34c4ba3f807507a62a14f4c1f6af2c2cfd8a8eb07220d7c52e6fe5729a48e0e4b3823785a8109400409c8de61957349e",
		tt:       "2c000000000000005350414b45322b2d503235362d5348413235362d484b44462d534841323536205465737420566563746f72730600000000000000636c69656e740600000000000000736572766572410000000000000004886e2f97ace46e55ba9dd7242579f2993b64e16ef3dcab95afd497333d8fa12f5ff355163e43ce224e0b0e65ff02ac8e5c7be09419c785e0ca547d55a12e2d20410000000000000004d8bbd6c639c62937b04d997f38c3770719c629d7014d49a24b4f98baa1292b4907d60aa6bfade45008a636337f5168c64d9bd36034808cd564490b1e656edbe7410000000000000004b7f125df138ca0e39ab4be631fe4699523d3f1fff17a087775058d163f075a45c53b2b4f6430b1dd62b81e8eda730faa542323c5fc90766d853d491a66cea9cf4100000000000000042f259b8b8afb60be6c6ed0a21dcdbb91b9ee794c169eb93c34973dc117f1c675b075e07a9f72a41e932a884db5b32a603ce8263259ba19438fe0789fd6e31cc4410000000000000004361c13f083f8a4ee9ad179e13e1d1f7b707533860adde64c3b4a6c8cc5fe5a648ebd56d17a6e600340e611d56da34b364ec75457c40b9d4936025fa4db059132410000000000000004db83d6b9c5908cf3904b7fba6590bd6b34c4ba3f807507a62a14f4c1f6af2c2cfd8a8eb07220d7c52e6fe5729a48e0e4b3823785a8109400409c8de61957349e2000000000000000f8648104ede0eb4bf1f762d3f7022bf7d49a8b0911e47375d793830432d77be7",
		main:     "ba9a70c307189e8fc5750050cc086e5f92113473f66879ff2d36d9ddaae4121a",
		keyP:     "e243ab7c3d4e63b46c67783b9126f27c44a2140dae9dfbf12dab1f58b6448964",
		keyV:     "ca622e09a248d384f540cc7794c30bf63f7a5ec1dbc6eb8da1b37cb8b40ca58b",
		confirmP: "3ffb4826923e29226d107b55621fd04d3ab1a958e8dc7d44dc18c987d1a751f1",
		confirmV: "ca7b2c49670d32ae92d65d29fe734d0def731e3984a7f5162181a26784eb2901",
		shared:   "2c3824544f8cd7e17e721900245c3afb8f82812b2db202f275dc4276ec6e184c",
	},
}

func TestVectors(t *testing.T) {
	t.Parallel()
	for _, want := range vectors {
		t.Run(want.name, func(t *testing.T) { want.check(t) })
	}
}

// check runs both sides with the vector's scalars and compares every intermediate value.
func (want vector) check(t *testing.T) {
	is := func(what, hexed string, got []byte) {
		t.Helper()
		if hexed != hex.EncodeToString(got) {
			t.Errorf("%s is %x, not %s", what, got, hexed)
		}
	}
	secret := &Secret{
		ids: Identities{Prover: "client", Verifier: "server"},
		w0:  scalar(unhex(t, want.w0)), w1: scalar(unhex(t, want.w1)),
	}
	held := record(t, secret)
	is("L", want.l, held.l.Bytes())
	e := must.Get(newExchange(Context{[]byte(want.context)}, secret.ids))(t)

	p := must.Get(newProver(secret, e, scalar(unhex(t, want.x))))(t)
	is("shareP", want.shareP, p.Share())
	v := must.Get(newVerifier(held, e, p.Share(), scalar(unhex(t, want.y))))(t)
	shareV, confirmV := v.Answer()
	is("shareV", want.shareV, shareV)
	is("confirmV", want.confirmV, confirmV)

	e.shareP, e.shareV = p.Share(), shareV
	y := must.Get(unblind(shareV, secret.w0, e.points.n))(t)
	z, vv := product(t, p.x, y), product(t, secret.w1, y)
	is("the prover's Z", want.z, z.Bytes())
	is("the prover's V", want.v, vv.Bytes())
	x := must.Get(unblind(p.Share(), held.w0, e.points.m))(t)
	is("the verifier's Z", want.z, product(t, scalar(unhex(t, want.y)), x).Bytes())
	is("the verifier's V", want.v, product(t, scalar(unhex(t, want.y)), held.l).Bytes())

	tt := e.transcript(z, vv, secret.w0)
	is("TT", want.tt, tt)
	main := sha256.Sum256(tt)
	is("K_main", want.main, main[:])
	k := must.Get(schedule(main[:]))(t)
	is("K_confirmP", want.keyP, k.confirmP)
	is("K_confirmV", want.keyV, k.confirmV)
	is("K_shared", want.shared, k.shared)

	confirmP, key, err := p.Finish(shareV, confirmV)
	must.Do(t, err)
	is("confirmP", want.confirmP, confirmP)
	is("the prover's key", want.shared, key.Bytes())
	is("the verifier's key", want.shared, must.Get(v.Finish(confirmP))(t).Bytes())
}

// TestConstantsAreDerivedFromAHash repeats appendix B: M and N are derived from a hash, so their
// logarithms are unknown.
func TestConstantsAreDerivedFromAHash(t *testing.T) {
	t.Parallel()
	points := must.Get(standard())(t)
	for name, got := range map[string]*nistec.P256Point{"M": points.m, "N": points.n} {
		want := generated(t, "1.2.840.10045.3.1.7 point generation seed ("+name+")")
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%s is not what its seed gives", name)
		}
	}
}

// generated returns the first point among the hashes of a seed.
func generated(t *testing.T, seed string) *nistec.P256Point {
	first := sha256.Sum256([]byte(seed))
	for range 1000 {
		second := sha256.Sum256(first[:])
		compressed := append([]byte{first[0]&1 | 2}, first[1:]...)
		compressed = append(compressed, second[0])
		if p, err := nistec.NewP256Point().SetBytes(compressed); err == nil {
			return p
		}
		first = second
	}
	t.Fatal("the seed gives no point")
	return nil
}

// TestReduce compares the reduction with math/big, which is slower and whose running time
// depends on its input.
func TestReduce(t *testing.T) {
	t.Parallel()
	order, _ := new(big.Int).SetString(groupOrder, 16)
	if want := must.Get(nistec.NewP256Point().ScalarBaseMult(order.Bytes()))(t); want.IsInfinity() != 1 {
		t.Fatal("the order times the generator is not the identity")
	}
	cases := []*big.Int{
		big.NewInt(0), big.NewInt(1), order,
		new(big.Int).Sub(order, big.NewInt(1)), new(big.Int).Add(order, big.NewInt(1)),
		new(big.Int).Mul(order, new(big.Int).Lsh(big.NewInt(1), 63)),
		new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 8*wideSize), big.NewInt(1)),
		new(big.Int).Lsh(big.NewInt(1), 8*halfSize),
	}
	for i := range 64 {
		h := sha256.Sum256([]byte{byte(i)})
		cases = append(cases, new(big.Int).SetBytes(append(h[:], h[:8]...)))
	}
	for _, n := range cases {
		var wide [wideSize]byte
		n.FillBytes(wide[:])
		got := must.Get(reduce(wide))(t)
		if want := new(big.Int).Mod(n, order); new(big.Int).SetBytes(got[:]).Cmp(want) != 0 {
			t.Errorf("%x reduced is %x, not %x", n, got, want)
		}
	}
}
