//go:build linux

package attack

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/idna"
)

// careless is a proxy that checks nothing. It parses hosts as careless programs do: as C
// strings, with user names and percent signs, in every form that inet_aton(3) accepts. A
// request that the product refuses reaches the attacker's server through this proxy, so the
// attack is real.
type careless struct {
	world     *world
	http      net.Listener
	socks     net.Listener
	listening sync.WaitGroup
}

func newVulnerableServer(w *world) (*careless, error) {
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	socks, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, web.Close())
	}
	c := &careless{world: w, http: web, socks: socks}
	c.listening.Go(func() { c.each(web, c.serveHTTP) })
	c.listening.Go(func() { c.each(socks, c.serveSOCKS) })
	return c, nil
}

func (c *careless) close() error {
	err := errors.Join(c.http.Close(), c.socks.Close())
	c.listening.Wait()
	return err
}

func (c *careless) each(l net.Listener, serve func(net.Conn) error) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		c.listening.Go(func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(patience / 2))
			if err := serve(conn); err != nil {
				fmt.Fprintf(conn, "HTTP/1.1 502 Bad Gateway\r\n\r\n%v", err)
			}
		})
	}
}

// connect connects to the server that a host resolves to.
func (c *careless) connect(host, port string) (net.Conn, error) {
	number, _ := strconv.ParseUint(strings.TrimLeft(port, "+ "), 10, 64)
	where, err := c.resolve(host)
	if err != nil {
		return nil, err
	}
	to, err := c.world.route(netip.AddrPortFrom(where, uint16(number)))
	if err != nil {
		return nil, err
	}
	return net.Dial("tcp", to)
}

func (c *careless) resolve(host string) (netip.Addr, error) {
	if plain, err := url.PathUnescape(host); err == nil {
		host = plain
	}
	host, _, _ = strings.Cut(host, "\x00")
	host = host[strings.LastIndexByte(host, '@')+1:]
	host, _, _ = strings.Cut(strings.Trim(host, "[] \t"), "%")
	if addr, ok := inetAton(host); ok {
		return addr, nil
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap(), nil
	}
	if ascii, err := idna.Lookup.ToASCII(host); err == nil {
		host = ascii
	}
	list := c.world.lookup(strings.TrimRight(host, "."), typeA)
	if len(list) == 0 {
		return netip.Addr{}, fmt.Errorf("no such host: %q", host)
	}
	return list[0], nil
}

// inetAton reads one to four numbers in decimal, octal or hexadecimal.
func inetAton(s string) (netip.Addr, bool) {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var all uint64
	for i, p := range parts {
		if strings.HasPrefix(p, "0") && len(p) > 1 && p[1] != 'x' && p[1] != 'X' {
			p = "0o" + p[1:]
		}
		n, err := strconv.ParseUint(p, 0, 33)
		if err != nil {
			return netip.Addr{}, false
		}
		shift := 8 * (3 - i)
		if i == len(parts)-1 {
			shift = 0
		}
		all += n << shift
	}
	return netip.AddrFrom4([4]byte{byte(all >> 24), byte(all >> 16), byte(all >> 8), byte(all)}), true
}

// serveHTTP tunnels, or forwards everything that follows the first host.
func (c *careless) serveHTTP(conn net.Conn) error {
	r := bufio.NewReader(conn)
	first, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	method, rest, _ := strings.Cut(first, " ")
	target, _, _ := strings.Cut(rest, " HTTP/")
	tunnel := method == "CONNECT"
	where := target
	if !tunnel {
		_, where, _ = strings.Cut(target, "://")
		where, _, _ = strings.Cut(where, "/")
	}
	host, port := where, "80"
	if i := strings.LastIndexByte(where, ':'); i >= 0 && !strings.HasSuffix(where, "]") {
		host, port = where[:i], where[i+1:]
	}
	to, err := c.connect(host, port)
	if err != nil {
		return err
	}
	defer to.Close()
	if !tunnel {
		_, _ = io.WriteString(to, first)
		return join(conn, r, to)
	}
	for text := first; strings.TrimSpace(text) != ""; {
		if text, err = r.ReadString('\n'); err != nil {
			return err
		}
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	return join(conn, r, to)
}

func (c *careless) serveSOCKS(conn net.Conn) error {
	r := bufio.NewReader(conn)
	head := make([]byte, 3+5)
	if _, err := io.ReadFull(r, head[:3]); err != nil {
		return err
	}
	_, _ = conn.Write([]byte{5, 0})
	if _, err := io.ReadFull(r, head[3:7]); err != nil {
		return err
	}
	size := map[byte]int{1: net.IPv4len, 4: net.IPv6len}[head[6]]
	if head[6] == 3 {
		n, err := r.ReadByte()
		if err != nil {
			return err
		}
		size = int(n)
	}
	place := make([]byte, size+2)
	if _, err := io.ReadFull(r, place); err != nil {
		return err
	}
	host := string(place[:size])
	if addr, ok := netip.AddrFromSlice(place[:size]); ok && head[6] != 3 {
		host = addr.String()
	}
	to, err := c.connect(host, fmt.Sprint(int(place[size])<<8|int(place[size+1])))
	if err != nil {
		return err
	}
	defer to.Close()
	_, _ = conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	return join(conn, r, to)
}

// join copies bytes in both directions until one side closes.
func join(conn net.Conn, r io.Reader, to net.Conn) error {
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(conn, to); _ = conn.Close() })
	_, _ = io.Copy(to, r)
	_ = to.Close()
	back.Wait()
	return nil
}
