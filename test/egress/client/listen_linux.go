package main

import (
	"bufio"
	"fmt"
	"net"
	"sync"
)

// listen serves ports of every address until it is stopped. It has tested each before it reports
// that it is ready.
func listen(ports []string) error {
	var servers sync.WaitGroup
	for _, port := range ports {
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			return err
		}
		servers.Go(func() { serve(l) })
		if said, err := talk("127.0.0.1:" + port); err != nil || said != "hello yourself" {
			return fmt.Errorf("my own port %s: %q, %w", port, said, err)
		}
	}
	fmt.Println("ready")
	servers.Wait()
	return nil
}

func serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if _, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
			_, _ = conn.Write([]byte("hello yourself\n"))
		}
		conn.Close()
	}
}
