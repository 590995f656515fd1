package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
)

// load makes many connections to an echo server, a number of them in parallel: ADDRESS COUNT
// AT-ONCE. Connection i sends i+1 random bytes and must receive the same bytes.
func load(args []string) error {
	if len(args) != 3 {
		return errors.New("want an address and two numbers")
	}
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	atOnce, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	numbers := make(chan int)
	failures := make(chan error, count)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for i := range numbers {
				if err := echo(args[0], i+1); err != nil {
					failures <- fmt.Errorf("connection %d: %s", i, outcome(err))
				}
			}
		})
	}
	for i := range count {
		numbers <- i
	}
	close(numbers)
	workers.Wait()
	close(failures)
	for err := range failures {
		return err
	}
	fmt.Println(count, "echoed")
	return nil
}

var errOther = errors.New("got other bytes back")

func echo(address string, size int) error {
	conn, err := dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	sent := make([]byte, size)
	_, _ = rand.Read(sent) // never fails
	// Random bytes may look like the start of a TLS hello, and an invalid hello is refused.
	sent[0] = 'e'
	if _, err := conn.Write(sent); err != nil {
		return err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		if err := tcp.CloseWrite(); err != nil {
			return err
		}
	}
	back, err := io.ReadAll(conn)
	if err == nil && !bytes.Equal(sent, back) {
		err = errOther
	}
	return err
}
