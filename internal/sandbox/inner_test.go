package sandbox

import (
	"slices"
	"strings"
	"testing"
)

// TestStarts: a program that starts another one says which one where that is certain,
// and "?" where it is not.
func TestStarts(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		// The control: ordinary lines of the same programs start nothing.
		"uv sync": "", "poetry install": "", "npm test": "", "npm install exec": "", "mise ls": "", "direnv allow": "", "nix build": "", "tar xzf a.tgz": "", "tar --file=a -x": "",
		"git status": "", "git -C a log --oneline": "", "git -c color.ui=never status": "", "git -c user.name='A B' commit -m exec": "", "git rebase main": "", "git bisect good": "",
		"git submodule update": "", "git --version": "", "sed -n 5p a": "", "sed -i -e 's/a\\/b/c/g; 2d' a": "", "sed -E '/^x[0-9]+$/,$ { s|a|b|; p }' a": "", "sed --sandbox 1e a": "",
		"find . -name a": "", "fd a": "", "rsync -av a b": "", "make -j8 V=1 all": "", "go test ./...": "", "man ls": "", "sort -u a": "", "cmake --build a": "", "ls": "", "npx --version": "",
		"yarn install": "", "bundle install": "", "conda list": "", "pipx list": "", "ip link": "", "less a": "", "gcc -O2 -o a a.c": "",

		// Wrappers with one command.
		"uv run pytest -q": "pytest", "uv run --frozen -- pytest": "pytest", "uv tool run ruff": "ruff", "uvx ruff check": "ruff", "pipx run black .": "black",
		"poetry run ./a.py": "./a.py a.py", "pdm run a": "a", "hatch run a": "a", "rye run a": "a", "pipenv run a": "a", "conda run a": "a", "mamba run a": "a",
		"npm exec -- eslint .": "eslint", "npm exec --yes -- eslint": "eslint", "npm x eslint": "eslint", "npx /bin/RM.exe": "/bin/RM.exe RM.exe rm rm.exe", "npx eslint .": "eslint", "pnpm exec a": "a", "pnpm dlx a": "a",
		"yarn exec a": "a", "yarn dlx a": "a", "yarn run a": "a", "bunx a": "a", "mise exec -- make": "make", "mise exec node@20 -- node a.js": "node", "direnv exec . make": "make",
		"asdf exec a": "a", "rbenv exec a": "a", "pyenv exec a": "a", "bundle exec rake": "rake", "nix run a": "a", "nix develop -c make": "make", "nix shell a -c make": "make",
		"find . -exec rm {} +": "rm", "find . -ok /bin/rm {} ;": "/bin/rm rm", "fd a -x rm": "rm", "git bisect run make test": "make", "ip netns exec a curl b": "curl",

		// One that starts another one.
		"uv run npx eslint": "eslint npx", "uv run env rm": "? env", "poetry run bash a.sh": "? bash", "npx python3 -c 1": "? python3", "uv run git -c alias.a=!rm a": "? git",

		// What cannot be told.
		"uv --offline run pytest": "?", "uv run --with a pytest": "?", "uv run": "?", "npm --prefix a exec b": "?", "npm exec -c 'rm a'": "?", "npx -p a b": "?", "npx -c 'rm a'": "?",
		"mise exec node@20": "?", "mise exec -c 'rm a'": "?", "mise x -- -a": "?", "direnv exec .": "?", "conda run -n a b": "?", "nix develop": "?", "nix-shell": "?",
		"nix-shell --run 'rm a'": "?", "nix-shell -p a --run rm": "?",
		"tar --to-command=sh -xf a": "?", "tar --to-c sh -xf a": "?", "tar -x --checkpoint=1 --checkpoint-action=exec=sh -f a": "?", "tar -I ./a -xf b": "?", "tar -xI./a -f b": "?",
		"tar xIf ./a b": "?", "tar --use-compress-program=./a -xf b": "?", "tar -xFf a b": "?", "gtar --to-command sh -xf a": "?",
		"sed 1e a": "?", "sed -n '1e rm' a": "?", "sed s/a/b/e a": "?", "sed -e p -e 's/a/b/ge' a": "?", "sed 's|a|b|we.sh' a": "?", "sed 'w b' a": "?", "sed -f a.sed b": "?", "sed -ne e a": "?",
		"sed -i '' 's/a/b/e' a": "?", "sed '/a/{p;e}' a": "?", "sed 's/[/]/;e rm/' a": "?", "sed --expression=e a": "?", "sed '1!e' a": "?", "sed 'p\ne' a": "?", "gsed e a": "?", "sed -s --exp=e a": "?",
		"git -c alias.status=!rm status": "?", "git -c core.pager=rm log": "?", "git -c core.sshCommand=rm fetch": "?", "git --exec-path=. status": "?", "git --config-env=alias.a=B a": "?",
		"git -C a -c core.fsmonitor=./a status": "?", "git rebase --exec make main": "?", "git rebase -ix make main": "?", "git rebase --exe make main": "?", "git bisect run": "?",
		"git submodule foreach 'rm a'": "?", "git submodule --quiet foreach rm a": "?", "git clone 'ext::sh -c rm' a": "?", "git fetch --upload-pack=rm a": "?", "git grep -Orm a": "?",
		"git filter-branch": "?", "git --what status": "?", "git clone -c core.hooksPath=. a b": "?",
		"find . -exec": "?", "find . -exec {} ;": "?", "find . -execute a": "?", "fd -xrm": "?", "fd --exec=rm": "?", "rsync -e ./a b c": "?", "rsync -avze ./a b c": "?", "rsync --rsh=./a b c": "?",
		"scp -o ProxyCommand=rm a b": "?", "scp -S ./a b c": "?", "make SHELL=./a": "?", "make CC=./a all": "?", "make --eval='$(shell rm)'": "?", "gmake 'A!=rm'": "?", "make A:=rm": "?",
		"go test -exec ./a ./...": "?", "go build -toolexec=./a": "?", "man -P ./a ls": "?", "man --pager=./a ls": "?", "less '+!rm' a": "?", "sort --compress-program=./a b": "?", "sort --comp ./a b": "?",
		"split --filter=rm a": "?", "wget -e use_askpass=./a b": "?", "zip -TT rm a b": "?", "cmake -E env rm": "?", "cargo --config build.rustc-wrapper='\"./a\"' build": "?", "gcc -wrapper ./a b.c": "?",
		"gcc -B. a.c": "?", "g++-12 -fplugin=./a.so b.cc": "?", "tcpdump -z ./a": "?", "cross-env A=b rm": "?", "nodemon --exec rm": "?", "ip n e a curl": "?",
	} {
		argv := words(line)
		if got := Starts([]string{argv[0]}, argv); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q starts %q, want %q", line, got, strings.Fields(want))
		}
	}
}

// words splits a line of a test at spaces outside of single quotes.
func words(line string) []string {
	var out []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out[len(out)-1] += part
			continue
		}
		fields := strings.Split(part, " ")
		if len(out) > 0 {
			out[len(out)-1] += fields[0]
			fields = fields[1:]
		}
		out = append(out, fields...)
	}
	return out
}

// TestStartsByEveryName: a program is read by all of its names, such as that of a link.
func TestStartsByEveryName(t *testing.T) {
	t.Parallel()
	p := Program{Basename: "main.js", Called: "npx"}
	if got := p.Facts([]string{"npx", "eslint"}).Starts; !slices.Equal(got, []string{"eslint"}) {
		t.Errorf("npx starts %q", got)
	}
	p = Program{Basename: "thing", Called: "thing", Copy: "tar"}
	if got := p.Facts([]string{"thing", "--to-command=sh"}).Starts; !slices.Equal(got, []string{"?"}) {
		t.Errorf("a copy of tar starts %q", got)
	}
}

// FuzzStarts: no line of sed, tar or git in which a program is named in one of the ways
// of the seeds is taken for one that starts nothing, whatever stands around it.
func FuzzStarts(f *testing.F) {
	for _, seed := range []string{"-n", "--posix", "-C\x00a", "-x", "p;", "--", "-i", "s/a/b/", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		around := strings.Split(text, "\x00")
		for _, argv := range [][]string{
			slices.Concat([]string{"tar", "-xf", "a"}, around, []string{"--to-command=sh"}),
			slices.Concat([]string{"git", "-c", "alias.a=!rm"}, around),
			slices.Concat([]string{"sed", "-e", "1e"}, around),
			slices.Concat([]string{"find"}, around, []string{"-exec", "rm", "{}", "+"}),
			slices.Concat([]string{"rsync"}, around, []string{"--rsh=./a"}),
		} {
			if argv[0] == "sed" && slices.ContainsFunc(around, func(word string) bool { return slices.Contains([]string{"--sandbox", "--version", "--help"}, word) }) {
				continue
			}
			if len(Starts([]string{argv[0]}, argv)) == 0 {
				t.Errorf("%q starts nothing", argv)
			}
		}
	})
}
