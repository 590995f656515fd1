// Package dnsname validates host names.
package dnsname

import (
	"net/netip"
	"strings"
)

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// Valid reports whether name is a host name as defined by RFC 1123 section 2.1: labels of 1 to
// 63 letters, digits and inner hyphens, at most 253 characters in total. A trailing dot is not
// valid.
func Valid(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		if !validLabel(label) {
			return false
		}
	}
	return len(name) <= 253
}

func validLabel(label string) bool {
	return label != "" && len(label) <= 63 && strings.Trim(label, letters+"-") == "" &&
		label[0] != '-' && label[len(label)-1] != '-'
}

// Loopback reports whether a host is the machine itself. It returns false for an empty host,
// which means every interface of a listener.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
