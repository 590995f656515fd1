package workspace

import (
	"path"
	"slices"
	"sync"
)

// runnerReads lists the files that a known runner reads implicitly, by the family of the program.
var runnerReads = map[string][]string{
	"make":     {"GNUmakefile", "makefile", "Makefile"},
	"gmake":    {"GNUmakefile", "makefile", "Makefile"},
	"ninja":    {"build.ninja"},
	"cmake":    {"CMakeLists.txt", "CMakePresets.json", "CMakeUserPresets.json"},
	"ctest":    {"CTestTestfile.cmake"},
	"meson":    {"meson.build"},
	"npm":      {"package.json", "package-lock.json", ".npmrc"},
	"npx":      {"package.json", ".npmrc"},
	"yarn":     {"package.json", "yarn.lock", ".yarnrc", ".yarnrc.yml"},
	"pnpm":     {"package.json", "pnpm-lock.yaml", ".npmrc", ".pnpmfile.cjs"},
	"node":     {"package.json"},
	"bun":      {"package.json", "bunfig.toml"},
	"deno":     {"deno.json", "deno.jsonc"},
	"tsc":      {"tsconfig.json", "package.json"},
	"jest":     {"package.json", "jest.config.js", "jest.config.ts", "jest.config.mjs", "jest.config.cjs"},
	"eslint":   {"package.json", "eslint.config.js", "eslint.config.mjs", "eslint.config.cjs", "eslint.config.ts", ".eslintrc.js", ".eslintrc.cjs", ".eslintrc.json"},
	"vite":     {"vite.config.js", "vite.config.mjs", "vite.config.cjs", "vite.config.ts", "vite.config.mts"},
	"vitest":   {"vitest.config.js", "vitest.config.mjs", "vitest.config.ts", "vitest.config.mts", "vite.config.js", "vite.config.ts"},
	"webpack":  {"webpack.config.js", "webpack.config.cjs", "webpack.config.mjs", "webpack.config.ts"},
	"rollup":   {"rollup.config.js", "rollup.config.mjs", "rollup.config.cjs", "rollup.config.ts"},
	"babel":    {"babel.config.js", "babel.config.cjs", "babel.config.mjs", "babel.config.json", ".babelrc", ".babelrc.js", ".babelrc.json"},
	"prettier": {".prettierrc.js", ".prettierrc.cjs", ".prettierrc.mjs", "prettier.config.js", "prettier.config.cjs", "prettier.config.mjs"},
	"mocha":    {".mocharc.js", ".mocharc.cjs", ".mocharc.json", ".mocharc.yml", ".mocharc.yaml"},
	"gulp":     {"gulpfile.js", "gulpfile.mjs", "gulpfile.ts"},
	"grunt":    {"Gruntfile.js"},
	"pytest":   {"conftest.py", "pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini"},
	"py.test":  {"conftest.py", "pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini"},
	"tox":      {"tox.ini", "pyproject.toml", "setup.cfg"},
	"nox":      {"noxfile.py"},
	"pip":      {"setup.py", "pyproject.toml", "setup.cfg"},
	"poetry":   {"pyproject.toml", "poetry.lock"},
	"uv":       {"pyproject.toml", "uv.lock"},
	"mypy":     {"mypy.ini", "pyproject.toml", "setup.cfg"},
	"pylint":   {".pylintrc", "pylintrc", "pyproject.toml", "setup.cfg"},
	"flake8":   {".flake8", "setup.cfg", "tox.ini"},
	"scons":    {"SConstruct"},
	"ruff":     {"ruff.toml", ".ruff.toml", "pyproject.toml"},
	"python":   {"conftest.py", "pytest.ini", "pyproject.toml", "setup.cfg", "setup.py", "sitecustomize.py", "usercustomize.py"},
	"cargo":    {"Cargo.toml", "Cargo.lock", "build.rs", ".cargo/config.toml", ".cargo/config", "rust-toolchain.toml"},
	"go":       {"go.mod", "go.sum", "go.work"},
	"git":      {".git/config", ".git/config.worktree", ".gitattributes", ".git/info/attributes"},
	"rake":     {"Rakefile", "Gemfile"},
	"bundle":   {"Gemfile", "Gemfile.lock"},
	"rubocop":  {".rubocop.yml"},
	"vagrant":  {"Vagrantfile"},
	"docker":   {"docker-compose.yml", "docker-compose.yaml", "compose.yml", "compose.yaml"},
	"nix":      {"flake.nix", "shell.nix", "default.nix"},
	"rspec":    {".rspec", "Gemfile"},
	"mvn":      {"pom.xml", ".mvn/maven.config", ".mvn/jvm.config"},
	"gradle":   {"build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "gradle.properties"},
	"ant":      {"build.xml"},
	"just":     {"justfile", "Justfile", ".justfile"},
	"task":     {"Taskfile.yml", "Taskfile.yaml"},
	"composer": {"composer.json", "composer.lock"},
	"dotnet":   {"Directory.Build.props", "Directory.Build.targets", "global.json"},
}

// runnerData are the runners' files without commands: locks, lists of dependencies, settings.
var runnerData = []string{
	"package-lock.json", "yarn.lock", "pnpm-lock.yaml", "poetry.lock", "uv.lock", "Cargo.lock", "Gemfile.lock", "composer.lock",
	"go.mod", "go.sum", "go.work", "tsconfig.json", "ruff.toml", ".ruff.toml", "global.json",
}

// RunnerReads returns the names of the files that a known runner reads implicitly, relative to
// its working directory; nil for any other program.
func RunnerReads(family string) []string { return runnerReads[family] }

// runnerOrders is the set of folded names of the runners' files that can contain commands and
// that Protected does not include.
var runnerOrders = sync.OnceValue(func() map[string]bool {
	orders := map[string]bool{}
	for _, files := range runnerReads {
		for _, file := range files {
			if !slices.Contains(runnerData, file) && !Protected(file) {
				orders[Fold(path.Base(file))] = true
			}
		}
	}
	return orders
})

// RunnerOrders reports whether a known runner takes commands from a file of that name. Names
// are compared as on the most tolerant file system. Files that are Protected do not count.
func RunnerOrders(name string) bool { return runnerOrders()[Fold(name)] }
