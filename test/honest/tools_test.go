//go:build linux

package honest

// versioned are the commands of git. The repository of their setup exists before the run.
func versioned() []row {
	const identity = `git config --global user.name a && git config --global user.email a@example.org && `
	const repository = identity + `git init -q -b main . && echo one >f && mkdir d && echo two >d/g && git add . && git commit -q -m first`
	const signed = identity + `mkdir -m 700 "$HOME/.gnupg" && gpg -q --batch --passphrase '' --quick-gen-key 'A <a@example.org>' ed25519 sign never 2>log &&
git config user.signingkey a@example.org && git config gpg.program gpg && echo 3 >f && git commit -q -S -a -m signed 2>>log; cat log >&2; git log -1 --format=%G?; gpg-connect-agent /bye`
	return []row{
		{name: "git init and commit", quick: true, tierB: true, script: identity + `git init -q -b main r && cd r && echo 1 >f && git add f && git commit -q -m first && git log --format=%s`, want: "first"},
		{name: "git commit", tierB: true, before: repository, script: identity + `echo 3 >f && git commit -q -a -m second && git log --format=%s | head -1 && git status --porcelain`, want: "second", made: files{"f": "3"}},
		{name: "git clone", before: repository, script: `git clone -q --no-hardlinks . c && cat c/d/g && git -C c log --format=%s`, want: "two\nfirst", made: files{"c/d/g": "two"}},
		{name: "git submodule add", before: repository + ` && git init -q x && cd x && echo x >x && git add x && git commit -q -m x`,
			script: `git -c protocol.file.allow=always submodule --quiet add file:///workspace/x y 2>&1; cat y/x; git submodule status | cut -d" " -f3`, want: "x\ny"},
		{name: "git worktree", before: repository, script: `git worktree add -q w 2>log; cat w/f && git worktree list | wc -l`, want: "one\n2"},
		{name: "git rebase", before: repository, script: identity + `git checkout -q -b t && echo t >t && git add t && git commit -q -m t && git checkout -q main && echo m >m && git add m && git commit -q -m m && git rebase -q main t && ls`, want: "d\nf\nm\nt"},
		{name: "git stash", tierB: true, before: repository, script: `echo 9 >f && git stash -q && cat f && git stash pop -q && cat f`, want: "one\n9"},
		{name: "git commit of a move", before: repository, script: identity + `mv d e && git add -A && git commit -q -m moved && cat e/g && test ! -e d && git status --porcelain`, want: "two", made: files{"e/g": "two"}},
		{name: "git commit -S", before: repository, script: signed, want: "[GU]"},
		{name: "mv of a directory", before: `mkdir -p d/e && echo one >d/e/f && ln -s e d/l`, script: `mv d n && echo two >>n/e/f && cat n/l/f && test ! -e d`, want: "one\ntwo", made: files{"n/e/f": "one\ntwo"}},
		{name: "ln of a file", before: `echo one >f`, script: `ln f g && echo two >>g && cat f && stat -c %h g`, want: "one\ntwo\n2", made: files{"g": "one\ntwo"}},
	}
}

// ordinary are the tools of shells and scripts.
func ordinary() []row {
	return []row{
		{name: "ssh-keygen", script: `ssh-keygen -q -t ed25519 -N '' -f k && ssh-keygen -l -f k.pub | cut -d' ' -f1`, want: "256"},
		{name: "openssl", script: `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout k -out c -subj /CN=a 2>log && openssl x509 -noout -subject -in c`, want: "subject=CN = a"},
		{name: "gpg", script: `mkdir -m 700 "$HOME/.gnupg" && gpg -q --batch --passphrase '' --quick-gen-key a@example.org default default never 2>log; echo text >f && gpg -q --batch --trust-model always -r a@example.org -e f && gpg -q --batch -d f.gpg || cat log`, want: "text"},
		{name: "tar and compressors", tierB: true, files: files{"d/f": "text"}, script: `for c in z J; do tar c${c}f a d && tar x${c}Of a d/f; done; zstd -q d/f -o f.zst && zstd -dcq f.zst; zip -qr a.zip d && unzip -p a.zip d/f`, want: "text\n?text\n?text\n?text"},
		{name: "rsync", tierB: true, files: files{"d/f": "text"}, script: `rsync -a d/ e/ && cat e/f`, want: "text", made: files{"e/f": "text"}},
		{name: "sed, awk, jq", quick: true, tierB: true, script: `echo a1b | sed s/1/2/; echo 3 4 | awk '{print $2}'; echo '{"a": [5]}' | jq '.a[0]'`, want: "a2b\n4\n5"},
		{name: "ripgrep and find", quick: true, tierB: true, files: files{"d/f": "needle", "d/g": "hay"}, script: `rg -l needle; find . -name g`, want: "d/f\n./d/g"},
		{name: "tmux", script: `tmux -S t.sock -f /dev/null new-session -d 'echo from tmux >out; sleep 30' && while ! test -s out; do :; done; cat out; tmux -S t.sock list-sessions | grep -c windows; tmux -S t.sock kill-server`, want: "from tmux\n1"},
		{name: "script", script: `script -qec 'test -t 1 && echo at a terminal' log`, want: "at a terminal\r?"},
		{name: "expect", script: `expect -c 'log_user 0; spawn sh -c {read a; echo got $a}; send "x\r"; expect "got x" {puts found}'`, want: "found"},
		{name: "man and less", script: `man -P cat git-init 2>/dev/null | grep -c . >n; echo text | less -E; test -s n && man -w git-init >/dev/null && echo found`, want: "text\nfound"},
		{name: "locale", tierB: true, script: `LC_ALL=C.UTF-8 locale charmap`, want: "UTF-8"},
		{name: "terminfo", script: `TERM=xterm tput cols; TERM=screen tput clear | od -An -c | head -1 | tr -d ' '; infocmp -1 xterm | head -2 | tail -1 | cut -d'|' -f1`, want: "80\n.*\nxterm"},
		{name: "fontconfig", script: `fc-list : family | grep -c 'DejaVu Sans$' >n; fc-match sans | cut -d: -f1 && test "$(cat n)" -gt 0`, want: "DejaVuSans.ttf"},
		{name: "vim", files: files{"f": "one\n"}, script: `vim -es -u NONE -c '%s/one/two/' -c wq f; cat f`, want: "two", made: files{"f": "two"}},
		{name: "os-release", quick: true, tierB: true, script: `. /etc/os-release && test -n "$ID" && echo known`, want: "known"},
	}
}

// served are servers that the run itself talks to, and browsers.
func served() []row {
	const postgres = `PATH=$(ls -d /usr/lib/postgresql/*/bin | tail -1):$PATH
initdb -D data -A trust -U tool >log 2>&1 && pg_ctl -D data -s -w -l pg.log -o "-k /tmp -c listen_addresses=''" start >>log 2>&1 || cat log pg.log
psql -h /tmp -U tool -Atc 'select 6*7' postgres; pg_ctl -D data -s -m immediate stop`
	const redis = `redis-server --port 0 --unixsocket /tmp/r.sock --daemonize yes --save '' >log
while ! redis-cli -s /tmp/r.sock ping >/dev/null 2>&1; do :; done; redis-cli -s /tmp/r.sock set a 1; redis-cli -s /tmp/r.sock get a; redis-cli -s /tmp/r.sock shutdown nosave`
	return []row{
		{name: "PostgreSQL", script: postgres, want: "42"},
		{name: "redis", script: redis, want: "OK\n1"},
		{name: "sqlite3", quick: true, tierB: true, script: `sqlite3 a.db 'create table t(n); insert into t values (42); select n from t'`, want: "42"},
		{name: "a server on loopback", tierB: true, files: files{"d/f": "text"}, script: `python3 -m http.server -b 127.0.0.1 -d d 8000 2>log & while ! curl -sf http://127.0.0.1:8000/f; do :; done; kill $!`, want: "text"},
		{name: "chromium", files: files{"a.html": "<p id=a></p><script>document.getElementById('a').textContent = 6 * 7</script>"},
			script: `chromium --headless --no-sandbox --disable-gpu --dump-dom file:///workspace/a.html 2>log | grep -o '<p id="a">42' || tail -5 log`, want: `<p id="a">42`},
	}
}
