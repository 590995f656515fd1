package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/reason"
	"palyra/internal/identity/ca"
)

// Known is a gateway with a known CA, for use without a credential.
type Known struct {
	Address, ServerName string
	// Root is its CA.
	Root *x509.Certificate
}

// Stranger returns a connection without a credential to a gateway with a known CA.
func (d Dialer) Stranger(k Known) palyrav1connect.LoginServiceClient {
	return d.logins(k.Address, ca.ClientTLS(k.Root, k.ServerName, nil))
}

func (d Dialer) logins(address string, c *tls.Config) palyrav1connect.LoginServiceClient {
	return d.services(noRedirects(transport(c)), "https://"+address, address).Logins
}

// Meet retrieves the CA of the gateway at an address. Meet authenticates nothing and sends no
// other request. The caller must have the CA's fingerprint compared, and then connect again
// with Stranger, which trusts only that CA.
func (d Dialer) Meet(ctx context.Context, address string) (Known, error) {
	k := Known{Address: address}
	//#nosec G402 -- the answer is compared with a fingerprint before anything is trusted
	about, err := d.logins(address, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}}).
		DescribeLogin(ctx, &palyrav1.DescribeLoginRequest{})
	if err != nil {
		return k, err
	}
	k.ServerName = about.GetServerName()
	chain, err := ca.ParseChain([]byte(about.GetCaCertificate()))
	if err != nil || len(chain) != 1 || !chain[0].IsCA || k.ServerName == "" {
		return k, reason.Errorf(reason.VerificationFailed, "the server at %s did not send a CA", address)
	}
	k.Root = chain[0]
	return k, nil
}
