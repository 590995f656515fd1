package uids

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// span are the IDs from first to last.
type span struct{ first, last int }

func (s span) overlaps(o span) bool { return s.first <= o.last && o.first <= s.last }

func (s span) within(list []span) bool {
	for _, o := range list {
		if o.first <= s.first && s.last <= o.last {
			return true
		}
	}
	return false
}

// taken returns the IDs that files below root assign: to accounts and groups (passwd(5),
// group(5)), to user namespaces of accounts (subuid(5), subgid(5)), and to the accounts of
// directories (sssd-ldap(5), smb.conf(5)). Missing and unreadable files assign none.
func taken(root string) (list []span) {
	at := func(name string) string { return filepath.Join(root, name) }
	for _, name := range []string{"etc/passwd", "etc/group"} {
		eachLine(at(name), func(line string) {
			if fields := strings.Split(line, ":"); len(fields) > 2 {
				list = appendSpan(list, fields[2], fields[2])
			}
		})
	}
	for _, name := range []string{"etc/subuid", "etc/subgid"} {
		eachLine(at(name), func(line string) {
			fields := strings.Split(line, ":")
			if len(fields) != 3 {
				return
			}
			first, err := strconv.Atoi(fields[1])
			count, failed := strconv.Atoi(fields[2])
			if err == nil && failed == nil && count > 0 {
				list = append(list, span{first, first + count - 1})
			}
		})
	}
	settings, _ := filepath.Glob(at("etc/sssd/conf.d/*.conf"))
	for _, name := range append(settings, at("etc/sssd/sssd.conf")) {
		list = append(list, sssd(name)...)
	}
	// idmap config DOMAIN : range = 10000-999999
	eachLine(at("etc/samba/smb.conf"), func(line string) {
		name, value, _ := strings.Cut(strings.ToLower(line), "=")
		first, last, _ := strings.Cut(value, "-")
		if name = strings.TrimSpace(name); strings.HasPrefix(name, "idmap config") && strings.HasSuffix(name, "range") {
			list = appendSpan(list, first, last)
		}
	})
	return list
}

// sssd returns the ranges of the domains in a file. Without these settings sssd uses 200000 to
// 2000200000, which no range of sandboxes overlaps by default.
func sssd(name string) (list []span) {
	const least = "200000"
	first := least
	eachLine(name, func(line string) {
		key, value, _ := strings.Cut(line, "=")
		switch key = strings.TrimSpace(key); {
		case strings.HasPrefix(key, "["):
			first = least
		case key == "ldap_idmap_range_min", key == "min_id":
			first = value
		case key == "ldap_idmap_range_max", key == "max_id":
			list = appendSpan(list, first, value)
		}
	})
	return list
}

func appendSpan(list []span, first, last string) []span {
	a, err := strconv.Atoi(strings.TrimSpace(first))
	b, failed := strconv.Atoi(strings.TrimSpace(last))
	if err != nil || failed != nil || b < a {
		return list
	}
	return append(list, span{a, b})
}

func eachLine(name string, each func(string)) {
	f, err := os.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		each(strings.TrimSpace(lines.Text()))
	}
}

// mapped returns the IDs that exist in this user namespace (user_namespaces(7)), as users and as
// groups.
func mapped(root string) (users, groups []span) {
	read := func(name string) (list []span) {
		eachLine(filepath.Join(root, "proc/self", name), func(line string) {
			if fields := strings.Fields(line); len(fields) == 3 {
				first, err := strconv.Atoi(fields[0])
				count, failed := strconv.Atoi(fields[2])
				if err == nil && failed == nil {
					list = append(list, span{first, first + count - 1})
				}
			}
		})
		return list
	}
	return read("uid_map"), read("gid_map")
}
