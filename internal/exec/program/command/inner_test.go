package command

import (
	"slices"
	"strings"
	"testing"
)

// TestStarts: a program that starts another one returns its name if that is certain, and "?"
// otherwise.
func TestStarts(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		// Control: ordinary lines of the same programs start no other program.
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

		// A program that starts another one.
		"uv run npx eslint": "eslint npx", "uv run env rm": "? env", "poetry run bash a.sh": "? bash", "npx python3 -c 1": "? python3", "uv run git -c alias.a=!rm a": "? git",

		// Uncertain commands.
		"uv --offline run pytest": "pytest", "uv run --with a pytest": "?", "uv run": "?", "npm --prefix a exec b": "b", "npm exec -c 'rm a'": "?", "npx -p a b": "?", "npx -c 'rm a'": "?",
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

// words splits a line of a test at spaces outside single quotes.
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

// TestStartsSomething contains lines in which an argument names code in a program-specific way.
// Each was tested by a reviewer or is similar to a tested one.
func TestStartsSomething(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		// Unknown subcommands, including abbreviations.
		"npm exe -- rm", "npm exe -c rm", "npm explore a rm", "npm init a", "npm create a", "npm config set script-shell ./a", "npm edit a", "bundle e rm", "bundle ex rm", "bundle open a", "gem ex rm",
		"yarn a", "yarn workspace a exec rm", "yarn workspace a rm", "yarn workspaces foreach run a", "yarn create a", "pnpm a", "pnpm recursive exec rm", "pnpm -r exec rm", "pnpm --filter a exec rm", "pnpm create a", "pnpm -c exec rm",
		"bun run a", "bun evil", "bun create a", "rye r a", "uv tool --offline run a", "uv tool --with a run b", "hatch env run a", "poetry self add a", "poetry shell", "pipenv shell", "corepack npm exec -- rm", "rustup run stable rm", "volta run rm",
		"gprofng collect app rm", "cargo evil", "go tool link a", "go evil", "mise watch a", "composer exec a", "dotnet a.dll", "dotnet exec a.dll", "meson devenv rm", "pre-commit try-repo a", "hg bisect -c rm", "git evil", "git lola",
		"mvn exec:exec", "mvn clean exec:exec", "mvn clean package -Dexec.executable=rm",
		// Options whose value is a command or code.
		"npm test --script-shell ./a", "npm test --script-sh=./a", "npm test -script-shell=./a", "npm --prefix a test --script-shell=./a", "npm install --git=./a b", "npm install -git ./a b", "npm run a --node-options=--require=./a", "npm docs --browser=./a",
		"npm ci --userconfig a", "npm ci --globalconfig=a", "npm init -y --init-module ./a", "npm test --shell ./a", "npm view a --viewer=./a", "npm edit --editor ./a", "npm ci --node-gyp=./a",
		"zip -T o.zip a -TT./evil", "zip -T o.zip a -TT ./evil", "zip o.zip a -T -TT=./evil", "zip -qTT ./evil -T o.zip a", "zip o.zip a -T --unzip-comm ./evil", "zip o.zip a --unz=./evil",
		"make all -f -", "make -f - all", "make -f- all", "make -kf - all", "make --file=- all", "make all -f /dev/stdin", "make -f/dev/stdin", "make --makefile=/dev/fd/0", "make MAKEFLAGS=--eval=a", "make --ev=a", "rake -e a", "rake -f -", "task -t -",
		"gcc @rsp -c a.c", "gcc -Wl,-plugin,./x.so a.c", "gcc -Wl,--plug,./x.so a.c", "gcc -Wl,@rsp a.c", "gcc -Xlinker -plugin -Xlinker ./x.so a.c", "x86_64-linux-gnu-gcc-12 -wrapper ./a a.c", "clang-14 -fpass-plugin=./x.so a.c", "clang -Xclang -load a.c",
		"ld -plugin ./x.so a", "x86_64-linux-gnu-ld.bfd -plugin ./x.so a", "nm --plugin ./x.so a", "nm --pl ./x.so a", "ar --plugin ./x.so t a", "objcopy --plugin=./x.so a", "ld @rsp", "javac @rsp", "pytest @rsp", "tcc -run a.c",
		"install -s --strip-program=./a b c", "install -s --strip-p ./a b c", "sdiff --diff-program=./a b c", "sdiff --diff=./a b c", "diff3 --diff-program ./a b c d", "less --lesskey-src=k a", "less --lesskey-s k a", "less -kk a", "curl --eng ./x.so a",
		"go build -ldflags=-extld=./a", "go build '-ldflags=-linkmode=external -extld=./a' .", "go build -ldflags '-s -extld=./a' .", "go build -ldflags=all=-extldflags=-wrapper .", "go build -gccgoflags=-B. .", "go vet -vettool=./a",
		"cargo rustc -- -Clinker=./a", "cargo rustc --manifest-path a -- -C linker=./a", "cargo clippy -- -Clinker=./a", "rustc -C linker=./a b.rs", "rustc -Clink-arg=-fplugin=./a b.rs", "rustc --codegen=linker=./a b.rs", "rustc -Zcodegen-backend=./a b.rs", "rustc @rsp",
		"dpkg-architecture -c rm", "dpkg --pre-invoke=./a -l", "dpkg -i a.deb", "apt-config -o Dir::Bin::dpkg=./a dump", "apt-get -o Dir::Bin::dpkg=./a check", "apt -c a list", "groff -U -z", "troff -U", "groff -F . -T x a",
		"openssl req -engine ./x.so", "openssl list -provider-path . -provider x", "openssl engine ./x.so", "openssl req -config a", "openssl pkey -in org.openssl.engine:x:y", "openssl",
		"sqlite3 a.db '.shell rm'", "sqlite3 a.db", "sqlite3 -cmd '.shell rm' a.db 'select 1'", "sqlite3 -init a a.db 'select 1'", "sqlite3 a.db 'select 1;\n.shell rm'", "sqlite3 a.db 'select load_extension(1)'", "sqlite3 a.db 'select 1' '.shell rm'",
		"busctl --address=unixexec:path=./a list", "busctl --addr unixexec:path=./a list", "busctl -H a list", "gdbus call --address unixexec:path=./a", "kubectl --kubeconfig=a get pods", "helm template a --post-renderer ./a",
		"rg --pre ./a b", "hg --config alias.a=!rm a", "hg --conf alias.a=!rm status", "hg -R a status", "svn diff --diff-cmd ./a", "fzf --bind 'enter:execute(rm)'", "fzf --preview rm", "ncat -e ./a", "nc.traditional -e ./a b 1",
		"cmake -DCMAKE_C_COMPILER=./a .", "cmake -DCMAKE_AR=./a .", "cmake -D CMAKE_C_CPPCHECK=./a .", "cmake -DCMAKE_C_FLAGS=-B. .", "cmake -DCMAKE_C_COMPILER_LAUNCHER=./a .", "cmake --build a -- SHELL=./a", "cmake --build a -- -f -", "cmake -P /dev/stdin",
		"gpg --agent-program ./a -k", "gpg --agent-p ./a -k", "gpg --homedir a -k", "pip --python ./a list", "pip --pyth=./a list", "uv venv --python ./a", "uv sync -p ./a", "virtualenv -p ./a b", "tox -x testenv.commands=rm", "pylint --init-hook=a b",
		"ssh-keygen -D ./x.so", "java -XX:OnOutOfMemoryError=./a b", "java -agentpath:./x.so b", "latexmk -pdflatex=./a b", "pdflatex -shell-escape b", "pandoc -F ./a b", "nvcc -ccbin ./a b.cu", "nix build --option post-build-hook ./a", "mocha --import data:text/javascript,a",
		// Options of programs that are not in the tables, recognized by the names of the options.
		"some --compress-command ./a", "some --ssh-cmd=./a", "some --pager ./a", "some --plugin=./x.so", "some --test-runner x", "some --testRunner=x", "some -exec ./a", "some --html-viewer ./a", "some --credential-provider ./a", "some --pre-invoke ./a",
		"some --extcmd=./a", "some --strip-prog ./a", "some --shell.path /bin/x", "some --hook_post x", "some --COMMAND x",
		// Programs that always start others.
		"sotruss ./a", "memusage ./a", "scriptlive -c rm", "debconf rm", "ccache ./a", "dc -e !rm", "psql -c '\\! rm'", "mono a.exe", "gdbserver :1 ./a", "nano a", "sftp -b a b", "qemu-x86_64 ./a",
		// Git repositories with an unprotected configuration, and git's other ways.
		"git --git-dir=eg status", "git --git-dir eg status", "git --git-dir=eg diff --no-index a b", "git --git-dir=.git/../eg status", "git --bare status", "git -C a --git-dir=b log", "git merge-index ./a -a", "git -C r merge-index ./a -a", "git difftool -x ./a", "git difftool --extcmd=./a",
		"git mergetool", "git archive --exec=./a --remote=b HEAD", "git archive --exe=./a --remote=b HEAD", "git grep --open-files-in-pager=./a b", "git clone -u ./a b", "git ls-remote --upload-pack ./a b", "git push --receive-pack=./a b", "git push --rec ./a b",
		"git clone --conf core.fsmonitor=./a b", "git rebase -x ./a b", "git submodule foreach ./a", "git send-email a", "git instaweb", "git-rebase -x ./a b", "git-filter-branch --tree-filter rm",
	} {
		argv := words(strings.ReplaceAll(line, `\n`, "\n"))
		if len(Starts([]string{argv[0]}, argv)) == 0 && !IsInterpreter(argv[0]) || IsInterpreter(argv[0]) && !InlineCode(argv[0], argv) && len(Starts([]string{argv[0]}, argv)) == 0 {
			t.Errorf("%q starts nothing", line)
		}
	}
}

// TestStartsNothing is the control: ordinary lines of the same programs, which a permit for the
// program covers.
func TestStartsNothing(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"npm --prefix web run build", "npm ci", "npm run test -- --coverage", "npm run lint -- --fix", "npm install @types/node -D", "npm install --save-dev eslint", "npm ls --depth=0", "npm init -y", "npm run build --workspace web", "npm -w web test", "npm audit fix", "npm test -- -c jest.config.js", "npm config get registry", "npm view react version", "npm",
		"yarn", "yarn install --frozen-lockfile", "yarn add left-pad", "yarn workspace web test", "yarn workspace web add left-pad", "yarn --cwd web test", "pnpm install", "pnpm --filter web test", "pnpm -r run build", "pnpm add -D @scope/a", "bun install", "bun test", "bun add a",
		"uv sync --frozen", "uv pip install -r requirements.txt", "uv venv --python 3.12", "uv python install 3.12", "uv tool install ruff", "uv lock --upgrade", "poetry add requests", "poetry -C a install", "pipx list", "pip install --pre a", "pip install -r requirements.txt", "pip install -e .", "pip download --python-version 3.11 a", "pdm install", "hatch build", "bundle install --jobs 4", "gem install rake",
		"go build ./...", "go build -o a -trimpath .", "go build -ldflags='-s -w' .", "go build '-ldflags=-s -w -X main.version=1.2' .", "go test -run TestExec ./...", "go test -run=TestShell -count=1 -v ./...", "go -C a test ./...", "go vet ./...", "go mod tidy", "go run ./cmd/a", "go tool cover -html=a", "go test -tags exec -coverprofile=c.out", "go env GOPATH", "go generate ./...", "gofmt -l .", "golangci-lint run --config a.yml",
		"cargo build --release", "cargo test -- --nocapture", "cargo clippy --all-targets -- -D warnings", "cargo +nightly fmt", "cargo check -p a", "cargo nextest run", "rustc -O -C opt-level=3 a.rs", "rustup show", "rustup target add a",
		"eslint --config eslint.config.js src", "eslint --ext .ts --fix src", "tsc --project tsconfig.json --noEmit", "tsc -p .", "prettier --write src", "jest --config jest.config.js --coverage", "vitest run --filter a", "pytest -k exec -x -q", "pytest tests/test_shell.py::test_exec", "pytest -p no:cacheprovider --import-mode=importlib", "mypy --config-file a src", "ruff check --fix .", "esbuild --loader:.js=jsx --bundle a.js", "webpack --config a.js --mode production", "vite build",
		"make -f rules.mk all", "make -C sub all", "make -j8", "make V=1 test", "ninja -C build", "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release", "cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DCMAKE_INSTALL_PREFIX=/opt/a -DCMAKE_CXX_STANDARD=17 -DCMAKE_CXX_FLAGS=-O2 .", "cmake --build build -- -j8", "ctest --output-on-failure", "meson setup build",
		"gcc -O2 -Wall -DSHELL=a -DUSE_PLUGIN -Iinclude/plugin -Lplugin -lplugin -o a a.c", "gcc -Wl,-rpath,. -Wl,--as-needed a.c", "x86_64-linux-gnu-gcc-12 -c a.c", "g++ -std=c++20 a.cc", "ld -o a a.o", "nm a.o", "strip a", "objdump -d a", "javac -d out A.java",
		"git log --diff-filter=A --oneline", "git diff --stat", "git -C sub status", "git -C /workspace/a log", "git --git-dir=.git status", "git --git-dir a/.git --work-tree a status", "git --work-tree=a status", "git --no-pager log -n 5", "git commit -m 'exec the shell command'", "git grep -n exec", "git fetch origin", "git push origin main", "git clone --filter=blob:none https://a/b",
		"git checkout -b exec", "git submodule update --init", "git archive -o a.tar HEAD", "git lfs ls-files", "git stash pop", "git show HEAD:a", "git config --get user.name", "git merge --no-edit a", "git worktree list", "git rev-parse --show-toplevel",
		"grep -rn -- --exec .", "grep -e --pager a", "rg exec src", "rg -n --hidden a", "echo --command a", "printf %s --shell", "ls --color=never", "cat a", "cp --preserve=all a b", "find . -name '*.go' -newer a", "less a", "sort -u a", "diff -u a b", "install -m 755 a b", "zip -r a.zip b", "zip -T a.zip b", "unzip a.zip", "tar xzf a.tgz",
		"sqlite3 a.db 'select 1'", "sqlite3 -header -csv a.db 'select 1.5 from t'", "sqlite3 -readonly a.db 'select credit from t'", "openssl x509 -in a.pem -noout -text", "openssl version", "dpkg -l", "dpkg -L a", "apt-get -y install a", "apt list --installed", "kubectl get pods -n a", "helm template a", "groff -man -Tutf8 a", "busctl list", "gpg --verify a.sig",
		"curl -sS --fail -o a https://a/b", "wget -q https://a/b", "jq -r .a b", "terraform plan", "mvn -B -q test", "mvn clean package -DskipTests -Dmaven.compiler.source=17", "gradle build", "dotnet test --filter a", "dotnet build -c Release", "composer install", "pre-commit run --hook-stage manual -a", "rake test", "just build", "man ls", "some --no-pager --no-plugins", "some --shell=0", "some --page 2 --edit",
		"ruff --version", "sotruss --version", "nano --help", "psql --version",
	} {
		argv := words(line)
		if got := Starts([]string{argv[0]}, argv); len(got) > 0 {
			t.Errorf("%q starts %q", line, got)
		}
	}
}

// TestEditors: Debian's alternatives and other names of an editor count as that editor.
func TestEditors(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"vim.basic", "vim.tiny", "vim.nox", "vim.gtk3", "vim.athena", "view", "rview", "rvim", "vimdiff", "gvim", "ex", "vi", "nvi"} {
		if !IsInterpreter(name) || !InlineCode(name, []string{name, "-c", "!./a"}) || !ReadsCodeFromStdin(name, []string{name, "a"}) {
			t.Errorf("%s is not read like vim", name)
		}
	}
	for name, want := range map[string]string{"emacs-nox": "emacs", "emacs-gtk": "emacs", "python3.11-dbg": "python", "busybox.static": "busybox", "awk.real": "awk", "basic": "basic", "notes.tiny": "notes.tiny"} {
		if got := Family(name); got != want {
			t.Errorf("the family of %s is %q, want %q", name, got, want)
		}
	}
}

// TestStartsByEveryName: all names of a program are checked, such as the name of a link.
func TestStartsByEveryName(t *testing.T) {
	t.Parallel()
	p := Program{Basename: "main.js", Called: "npx"}
	if got := p.Facts([]string{"npx", "eslint"}).Starts; !slices.Equal(got, []string{"eslint"}) {
		t.Errorf("npx starts %q", got)
	}
	p = Program{Basename: "rustup", Called: "cargo"}
	if got := p.Facts([]string{"cargo", "build"}).Starts; len(got) > 0 {
		t.Errorf("cargo by rustup starts %q", got)
	}
	if got := p.Facts([]string{"cargo", "rustc", "--", "-Clinker=./a"}).Starts; !slices.Equal(got, []string{"?"}) {
		t.Errorf("cargo by rustup starts %q", got)
	}
	p = Program{Basename: "thing", Called: "thing", Copy: "tar"}
	if got := p.Facts([]string{"thing", "--to-command=sh"}).Starts; !slices.Equal(got, []string{"?"}) {
		t.Errorf("a copy of tar starts %q", got)
	}
}

// FuzzStarts: a line of sed, tar, git or a similar program that names another program never
// counts as starting none. The lines name programs like the seeds, in any context.
func FuzzStarts(f *testing.F) {
	for _, seed := range []string{"-n", "--posix", "-C\x00a", "-x", "p;", "--", "--..", "-i", "s/a/b/", ""} {
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
			slices.Concat([]string{"some"}, around, []string{"--strip-program=./a"}),
			slices.Concat([]string{"nm"}, around, []string{"--plugin", "./a"}),
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
