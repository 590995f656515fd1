package rpc

import (
	"net/http"

	"connectrpc.com/connect"
)

// refuseStrangers refuses requests of callers without the credential that their
// method needs, before their body is read. The guard alone would come too late: the
// library receives, inflates and decodes a message before it calls an interceptor,
// and strangers must not cause that work.
func (g *guard) refuseStrangers(next http.Handler) http.Handler {
	answers := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, _ := r.Context().Value(callerKey{}).(peer)
		method, listed := methods[r.URL.Path]
		if who.known || !listed || who.shows(method.Needs) {
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
