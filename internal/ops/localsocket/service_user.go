package localsocket

import (
	"bufio"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// ServiceUser reports whether a uid is a service user of this host. Such a uid is in
// /etc/passwd, and each of its entries has a shell that lets no person log in. A uid that the
// file does not list is not a service user.
func ServiceUser(uid int64) bool {
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return false
	}
	defer f.Close()
	return serviceUser(f, uid)
}

// noLogin are the base names of shells that end at once.
var noLogin = []string{"nologin", "false"}

// serviceUser reads the format of passwd(5).
func serviceUser(passwd io.Reader, uid int64) bool {
	listed := false
	lines := bufio.NewScanner(passwd)
	for lines.Scan() {
		entry := strings.Split(lines.Text(), ":")
		if len(entry) != 7 || entry[2] != strconv.FormatInt(uid, 10) {
			continue
		}
		if !slices.Contains(noLogin, path.Base(entry[6])) {
			return false
		}
		listed = true
	}
	return listed && lines.Err() == nil
}
