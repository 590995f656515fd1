package rpc

import (
	"net/http"

	"connectrpc.com/connect"
)

// refuseStrangers answers requests of nobody for methods that are not public
// before their body is read: a message is received, inflated and decoded before
// an interceptor sees it, and strangers shall not make the gateway do that.
func (g *guard) refuseStrangers(next http.Handler) http.Handler {
	answers := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, _ := r.Context().Value(callerKey{}).(peer)
		method, listed := methods[r.URL.Path]
		if who.known || !listed || method.Public {
			next.ServeHTTP(w, r)
			return
		}
		err := toConnect(r.Context(), g.log, r.URL.Path, g.admit(r.Context(), r.URL.Path))
		if err == nil {
			// Nobody is admitted nowhere; were it otherwise, the body waits.
			next.ServeHTTP(w, r)
			return
		}
		if werr := answers.Write(w, r, err); werr != nil {
			// The peer is gone; there is nobody to tell.
			return
		}
	})
}
