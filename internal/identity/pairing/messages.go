package pairing

// Offer is the gateway's answer to Begin. It is the same for all candidates.
type Offer struct {
	Code string
	Kind Kind
	// Salt is an input of the key derivation from the secret; spake2plus.SaltSize bytes.
	Salt []byte
	// DeviceID is the ULID that the device will have.
	DeviceID string
	// CA is the gateway's root certificate in DER. ServerName is the name in the server's
	// certificate, and ServerKey the KeySHA256 of its key.
	CA         []byte
	ServerName string
	ServerKey  []byte
}

// Proof is the candidate's first message of the exchange.
type Proof struct {
	Code string
	// Share is a point of P-256, spake2plus.ShareSize bytes.
	Share      []byte
	Commitment []byte
	// Request is a PKCS #10 request, DER.
	Request []byte
	// Name is the candidate's own name, for people; it may be empty.
	Name string
}

// Answer is the gateway's message. Its confirmation reveals whether the candidate's secret is
// correct.
type Answer struct {
	// Attempt identifies the attempt, 16 bytes.
	Attempt      []byte
	Share        []byte
	Confirmation []byte
	// GuessesLeft is the number of remaining guesses.
	GuessesLeft int
}

// Confirmation is the candidate's last message of the exchange.
type Confirmation struct {
	Attempt      []byte
	Confirmation []byte
	// Nonce is the number that Proof.Commitment commits to.
	Nonce []byte
}

// Collection requests the certificate.
type Collection struct {
	Request []byte
	// Signature is ECDSA in ASN.1 form by the candidate's key.
	Signature []byte
}

// Collected is a certificate; Waiting is true if the approval is still pending.
type Collected struct {
	Waiting  bool
	DeviceID string
	Member   string
	// Chain is PEM.
	Chain string
}

// Connection is the host's view of the connection of a message.
type Connection struct {
	// Exporter is the connection's exporter value; see Exporter.
	Exporter []byte
	// Address is the address of the peer, without a port.
	Address string
}
