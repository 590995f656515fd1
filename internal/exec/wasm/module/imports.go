package module

import (
	"palyra/internal/core/reason"
)

// Functions are the functions that a guest may import, by module and name. All of them exist and
// return a result, even if the guest has no grant for them.
var Functions = map[string]map[string]FuncType{
	// All functions of preview 1 are included, because programs link functions that they do not
	// use. Source: WASI preview 1, witx/wasi_snapshot_preview1.witx.
	WASI: {
		"args_get": {"ii", "i"}, "args_sizes_get": {"ii", "i"},
		"environ_get": {"ii", "i"}, "environ_sizes_get": {"ii", "i"},
		"clock_res_get": {"ii", "i"}, "clock_time_get": {"iIi", "i"},
		"fd_advise": {"iIIi", "i"}, "fd_allocate": {"iII", "i"}, "fd_close": {"i", "i"}, "fd_datasync": {"i", "i"},
		"fd_fdstat_get": {"ii", "i"}, "fd_fdstat_set_flags": {"ii", "i"}, "fd_fdstat_set_rights": {"iII", "i"},
		"fd_filestat_get": {"ii", "i"}, "fd_filestat_set_size": {"iI", "i"}, "fd_filestat_set_times": {"iIIi", "i"},
		"fd_pread": {"iiiIi", "i"}, "fd_prestat_get": {"ii", "i"}, "fd_prestat_dir_name": {"iii", "i"}, "fd_pwrite": {"iiiIi", "i"},
		"fd_read": {"iiii", "i"}, "fd_readdir": {"iiiIi", "i"}, "fd_renumber": {"ii", "i"}, "fd_seek": {"iIii", "i"},
		"fd_sync": {"i", "i"}, "fd_tell": {"ii", "i"}, "fd_write": {"iiii", "i"},
		"path_create_directory": {"iii", "i"}, "path_filestat_get": {"iiiii", "i"}, "path_filestat_set_times": {"iiiiIIi", "i"},
		"path_link": {"iiiiiii", "i"}, "path_open": {"iiiiiIIii", "i"}, "path_readlink": {"iiiiii", "i"},
		"path_remove_directory": {"iii", "i"}, "path_rename": {"iiiiii", "i"}, "path_symlink": {"iiiii", "i"}, "path_unlink_file": {"iii", "i"},
		"poll_oneoff": {"iiii", "i"}, "proc_exit": {"i", ""}, "proc_raise": {"i", "i"}, "sched_yield": {"", "i"}, "random_get": {"ii", "i"},
		"sock_accept": {"iii", "i"}, "sock_recv": {"iiiiii", "i"}, "sock_send": {"iiiii", "i"}, "sock_shutdown": {"ii", "i"},
	},
	// The handle interface; docs/format/skill.md describes each function.
	Capabilities: {
		"grant_open": {"iii", "i"}, "grant_count": {"i", "i"}, "grant_at": {"ii", "i"}, "grant_name": {"i", "i"},
		"http_request": {"iii", "i"}, "secret_read": {"i", "i"}, "channel_send": {"iii", "i"},
		"storage_get": {"iii", "i"}, "storage_put": {"iiiii", "i"}, "storage_delete": {"iii", "i"}, "storage_list": {"iii", "i"},
		"result_read": {"ii", "i"}, "log": {"iii", ""}, "now": {"", "I"}, "random": {"ii", "i"},
	},
}

// checkImport refuses an unknown function, or a function imported with a different type.
func (p *parser) checkImport(from, name string, is FuncType) {
	wants, there := Functions[from][name]
	switch {
	case !there:
		p.in.fail(reason.Errorf(reason.InvalidInput, "the module imports %q from %s, which has no such function", name, from).
			WithRemedy("Remove the code that needs it, or build with a tool that supports this version of the interface."))
	case wants != is:
		p.in.fail(reason.Errorf(reason.InvalidInput, "the module imports %q from %s as %s, but its type is %s", name, from, is, wants))
	}
}

// String formats a type as in the text format, "(i32, i64) -> i32".
func (t FuncType) String() string {
	words := map[rune]string{'i': "i32", 'I': "i64", 'f': "f32", 'F': "f64", 'v': "v128", 'r': "funcref", 'x': "externref"}
	list := func(letters string) string {
		text := "("
		for n, letter := range letters {
			if n > 0 {
				text += ", "
			}
			text += words[letter]
		}
		return text + ")"
	}
	return list(t.Params) + " -> " + list(t.Results)
}
