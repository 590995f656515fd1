package egress

// The legs: the ways in which a connection reaches the gateway.
const (
	// LegTool is the leg of the daemon's own tools, such as http.fetch.
	LegTool = ""
	// LegTransparent is a connection that the program opened without a proxy.
	LegTransparent = "transparent"
	LegConnect     = "connect" // HTTP CONNECT
	LegForward     = "forward" // an HTTP request in absolute form
	LegSOCKS       = "socks"
	LegName        = "name" // a query to the name service
)

// The verdicts of a connection in the record of a call.
const (
	VerdictAllowed = "allowed"
	VerdictDenied  = "denied"
	VerdictFailed  = "failed"
)

// The reasons of a connection that was denied, failed or was broken off.
const (
	ReasonUnlisted         = "unlisted"           // no rule names the host and port
	ReasonDeniedRule       = "denied_rule"        // a deny rule names the host, or its address
	ReasonAddressNotPublic = "address_not_public" // not public, and no allow rule names it
	ReasonGateway          = "gateway"            // the gateway itself listens there
	ReasonUnresolved       = "unresolved"         // the name has no address, or no server answered
	ReasonUnreachable      = "unreachable"        // no address of the host could be connected to

	ReasonNoName        = "no_name"        // TLS without a server name
	ReasonNameMismatch  = "name_mismatch"  // the server name of TLS is not the target
	ReasonBadTLS        = "bad_tls"        // not TLS, or not well-formed
	ReasonEncryptedName = "encrypted_name" // the outer name of an encrypted ClientHello is not allowed

	ReasonHostMismatch   = "host_mismatch" // Host or :authority is not the target
	ReasonBadHTTP        = "bad_http"
	ReasonMethod         = "method"
	ReasonPath           = "path"
	ReasonUpgrade        = "upgrade"
	ReasonHeaderTooLarge = "header_too_large"
	ReasonSecondRequest  = "second_request" // after a CONNECT

	ReasonSecretMisplaced  = "secret_misplaced"  // a placeholder where the value must not go
	ReasonSecretUnverified = "secret_unverified" //nolint:gosec // a placeholder on a connection that is not verified TLS

	ReasonSlow      = "slow"       // the program did not send its request in time
	ReasonBadSOCKS  = "bad_socks"  // not SOCKS5, or more than CONNECT without authentication
	ReasonQueryType = "query_type" // a query other than for an address

	ReasonBudgetConnections = "budget_connections"
	ReasonBudgetConcurrent  = "budget_concurrent"
	ReasonBudgetBytesOut    = "budget_bytes_out"
	ReasonBudgetBytesIn     = "budget_bytes_in"
	ReasonBudgetRequests    = "budget_requests"
	ReasonBudgetTime        = "budget_time"
	ReasonBudgetNames       = "budget_names" // more names than a program may resolve
)
