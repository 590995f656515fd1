//go:build linux

package honest

// compiled are the compilers, and the tools that drive them.
func compiled() []row {
	const hello = "int puts(const char *); int main(void) { return puts(\"hello\") < 0; }\n"
	return []row{
		{name: "gcc", tierB: true, files: files{"a.c": hello}, script: `gcc -O1 -o a a.c && ./a`, want: "hello"},
		{name: "g++", files: files{"a.cc": "#include <string>\n#include <cstdio>\nint main() { std::string s(\"hello\"); return std::puts(s.c_str()) < 0; }\n"},
			script: `g++ -o a a.cc && ./a`, want: "hello"},
		{name: "make", quick: true, tierB: true, files: files{"Makefile": "out: in\n\tcp in out\n", "in": "made"}, script: `make -s && cat out`, want: "made", made: files{"out": "made"}},
		{name: "cmake", files: files{"CMakeLists.txt": "cmake_minimum_required(VERSION 3.5)\nproject(a C)\nadd_executable(a a.c)\n", "a.c": hello},
			script: `cmake -G 'Unix Makefiles' -S . -B build >log && cmake --build build >>log && build/a`, want: "hello"},
		{name: "ninja", files: files{"build.ninja": "rule cp\n  command = cp $in $out\nbuild out: cp in\n", "in": "made"},
			script: `ninja >log && cat out`, want: "made", made: files{"out": "made"}},
		{name: "rustc", files: files{"a.rs": "fn main() { println!(\"hello\") }\n"}, script: `rustc a.rs && ./a`, want: "hello"},
		{name: "cargo build", files: files{"Cargo.toml": "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2021\"\n", "src/main.rs": "fn main() { println!(\"hello\") }\n"},
			script: `cargo build -q --offline && target/debug/a`, want: "hello"},
		{name: "go build", tierB: true, files: files{"go.mod": "module a\n\ngo 1.21\n", "main.go": "package main\n\nfunc main() { println(\"hello\") }\n"},
			script: `GOFLAGS=-buildvcs=false go build -o a . && ./a 2>&1`, want: "hello"},
		{name: "go test", files: files{"go.mod": "module a\n\ngo 1.21\n", "a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n"},
			script: `go test -vet=off ./...`, want: `ok\s+a\s.*`},
		{name: "AddressSanitizer", files: files{"a.c": "#include <stdlib.h>\nint main(void) { char *p = malloc(8); free(p); return p[0]; }\n"},
			script: `gcc -g -fsanitize=address -o a a.c && { ./a 2>err; grep -o heap-use-after-free err | head -1; }`, want: "heap-use-after-free"},
		{name: "LeakSanitizer", files: files{"a.c": "#include <stdlib.h>\nint main(void) { void *volatile p = malloc(8); p = 0; return p != 0; }\n"},
			script: `gcc -g -fsanitize=address -o a a.c && { ./a 2>err; grep -o 'detected memory leaks\|has encountered a fatal error' err; }`, want: "detected memory leaks"},
		{name: "gdb", files: files{"a.c": "int f(int n) { return n + 1; }\nint main(void) { return f(41) - 42; }\n"},
			script: `gcc -g -o a a.c && gdb -batch -ex 'break f' -ex run -ex 'print n' ./a 2>&1 | grep '^\$1'`, want: `\$1 = 41`},
		{name: "strace", script: `strace -f -e trace=openat,execve -o trace sh -c 'cat /dev/null; true' && grep -c 'exited with 0' trace`, want: "[12]"},
		{name: "valgrind", files: files{"a.c": "#include <stdlib.h>\nint main(void) { return malloc(8) == 0; }\n"},
			script: `gcc -g -o a a.c && valgrind -q --leak-check=full --error-exitcode=3 ./a 2>err; echo $?; grep -o 'definitely lost' err`, want: "3\ndefinitely lost"},
	}
}

// interpreted are the interpreters, with the parts of their libraries that need more of the kernel
// than files.
func interpreted() []row {
	const manager = `import multiprocessing as m
if __name__ == "__main__":
    with m.Manager() as manager:
        d = manager.dict()
        p = m.Process(target=d.__setitem__, args=("a", 1))
        p.start(); p.join()
        print(dict(d))
`
	const forkserver = `import multiprocessing as m
def f(n): return n * n
if __name__ == "__main__":
    m.set_start_method("forkserver")
    with m.Pool(2) as pool: print(pool.map(f, range(4)))
`
	const worker = `const { Worker, isMainThread, parentPort } = require("worker_threads");
if (isMainThread) new Worker(__filename).on("message", m => console.log(m)); else parentPort.postMessage("from the thread");
`
	const listen = `const net = require("net");
const s = net.createServer(c => c.end("by the socket")).listen("./s.sock", () =>
  net.connect("./s.sock").on("data", d => { console.log(String(d)); s.close(); }));
`
	const pty = `import os, pty
pid, fd = pty.fork()
if pid == 0:
    os.execvp("sh", ["sh", "-c", "test -t 0 && tty"])
print(os.read(fd, 100).decode().strip()); os.waitpid(pid, 0)
`
	return []row{
		{name: "python venv", tierB: true, script: `python3 -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'`, want: "True"},
		{name: "python Pool", tierB: true, files: files{"a.py": "import multiprocessing as m\nif __name__ == '__main__':\n    with m.Pool(2) as p: print(p.map(abs, [-1, -2]))\n"},
			script: `python3 a.py`, want: `\[1, 2\]`},
		{name: "python Manager", files: files{"a.py": manager}, script: `python3 a.py`, want: "{'a': 1}"},
		{name: "python forkserver", files: files{"a.py": forkserver}, script: `python3 a.py`, want: `\[0, 1, 4, 9\]`},
		{name: "python sqlite3 and ssl", quick: true, tierB: true, script: `python3 -c 'import sqlite3, ssl; print(sqlite3.connect("a.db").execute("select 6*7").fetchone()[0], len(ssl.create_default_context().get_ca_certs()) > 50)'`, want: "42 True"},
		{name: "python pty", files: files{"a.py": pty}, script: `python3 a.py`, want: "/dev/pts/0"},
		{name: "pip install", files: files{"w/a.py": "print('installed')\n", "w.py": wheel}, script: `python3 w.py && pip3 install -q --no-index --no-deps --target t ./a-1-py3-none-any.whl && PYTHONPATH=t python3 -m a`, want: "installed"},
		{name: "node", quick: true, tierB: true, script: `node -e 'console.log([1, 2].map(n => n * 2).join())'`, want: "2,4"},
		{name: "node WebAssembly", script: `node -e 'const m = new WebAssembly.Memory({ initial: 1, maximum: 65536 }); console.log(m.grow(1), new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]))) instanceof WebAssembly.Instance)'`, want: "1 true"},
		{name: "node worker threads", files: files{"a.js": worker}, script: `node a.js`, want: "from the thread"},
		{name: "node listen on a path", files: files{"a.js": listen}, script: `node a.js`, want: "by the socket"},
		{name: "npm install", files: files{"package.json": `{"name": "a", "version": "1.0.0", "dependencies": {"b": "file:./b"}}`, "b/package.json": `{"name": "b", "version": "1.0.0", "main": "b.js"}`, "b/b.js": "module.exports = 'of b'"},
			script: `npm install --offline --no-audit --no-fund --install-links >log 2>&1 || cat log; node -p 'require("b")'`, want: "of b"},
		{name: "java", files: files{"A.java": "class A { public static void main(String[] a) { System.out.println(\"hello\"); } }\n"},
			script: `javac A.java && java -Xshare:auto A`, want: "hello"},
		{name: "maven", script: `mvn -o -v | grep -o 'Apache Maven 3'`, want: "Apache Maven 3"},
		{name: "ruby", quick: true, tierB: true, script: `ruby -rjson -e 'puts JSON.generate([1, "a"])'`, want: `\[1,"a"\]`},
		{name: "perl", quick: true, tierB: true, script: `perl -MPOSIX -e 'print strftime("%Y", gmtime 0)'`, want: "1970"},
		{name: "php", script: `php -r 'echo json_encode(["a" => 1]);'`, want: `{"a":1}`},
	}
}

// wheel writes a wheel as the build of a package does.
const wheel = `import base64, hashlib, zipfile
def line(name, data): return "%s,sha256=%s,%d\n" % (name, base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(), len(data))
parts = {"a.py": open("w/a.py", "rb").read(), "a-1.dist-info/METADATA": b"Metadata-Version: 2.1\nName: a\nVersion: 1\n",
         "a-1.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
with zipfile.ZipFile("a-1-py3-none-any.whl", "w") as z:
    for name, data in parts.items(): z.writestr(name, data)
    z.writestr("a-1.dist-info/RECORD", "".join(line(*p) for p in parts.items()) + "a-1.dist-info/RECORD,,\n")
`
