package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// fetchAll gets URLs. Before each URL is 4 or 6 for the address family.
func fetchAll(args []string) error {
	for i := 0; i+1 < len(args); i += 2 {
		text, err := fetch(args[i], args[i+1])
		if err != nil {
			text = "failed"
		}
		fmt.Println(args[i], args[i+1], text)
	}
	return nil
}

func fetch(family, url string) (string, error) {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network+family, address)
		},
	}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: patience}).Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return strings.TrimSpace(string(text)), err
}
