package linked

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// NPM is an npm package with code in the console or the verifier, which palyrad embeds on every
// platform.
type NPM struct {
	Name    string
	Version string
	// Integrity is the digest of package-lock.json ("sha512-" and base64).
	Integrity string
	// Licence is an SPDX expression.
	Licence string
	// Texts are its licence and notice files, or where it has none, the statements of its
	// package.json and its linked modules.
	Texts []Text
	// Bundles lists the bundles with its code, such as console and verifier.
	Bundles []string
}

// bundles are the files in which `make web` records the modules of each bundle.
var bundles = []string{"console", "verifier", "verifier-worker", "worker"}

// virtual is the prefix of the functions that the bundler adds. The package of the bundler follows.
const virtual = "virtual:"

// Packages returns the npm packages in what `make web` built at root, sorted by name and version.
func Packages(root string) ([]NPM, error) {
	lock, err := readLock(filepath.Join(root, "web", "package-lock.json"))
	if err != nil {
		return nil, err
	}
	found := map[string]*bundled{}
	for _, bundle := range bundles {
		modules, err := readBundle(filepath.Join(root, "bin", "web-modules", bundle+".json"))
		if err != nil {
			return nil, err
		}
		for _, module := range modules {
			path, ok, err := packageOf(module)
			if err != nil {
				return nil, fmt.Errorf("bundle %s: %w", bundle, err)
			}
			if !ok {
				continue
			}
			if found[path] == nil {
				found[path] = &bundled{path: path, dir: filepath.Join(root, "web", filepath.FromSlash(path))}
			}
			found[path].add(bundle, module)
		}
	}
	packages := make([]NPM, 0, len(found))
	for _, b := range found {
		p, err := b.describe(root, lock)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.path, err)
		}
		packages = append(packages, p)
	}
	slices.SortFunc(packages, func(a, b NPM) int { return strings.Compare(a.Name+"@"+a.Version, b.Name+"@"+b.Version) })
	return packages, nil
}

// bundled is a package whose modules are being collected.
type bundled struct {
	// path is the key of package-lock.json, such as node_modules/react.
	path    string
	dir     string
	bundles []string
	// modules are paths below the package. They are empty for the functions of the bundler.
	modules []string
}

func (b *bundled) add(bundle, module string) {
	if !slices.Contains(b.bundles, bundle) {
		b.bundles = append(b.bundles, bundle)
	}
	if below, ok := strings.CutPrefix(module, b.path+"/"); ok {
		b.modules = append(b.modules, below)
	}
}

func readBundle(file string) ([]string, error) {
	body, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the modules of the console: %w; run `make web` first", err)
	}
	var modules []string
	if err := json.Unmarshal(body, &modules); err != nil {
		return nil, fmt.Errorf("reading the modules of the console: %s: %w", file, err)
	}
	return modules, nil
}

type lockedPackage struct{ Version, Integrity string }

func readLock(file string) (map[string]lockedPackage, error) {
	body, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the versions of npm packages: %w", err)
	}
	var lock struct{ Packages map[string]lockedPackage }
	if err := json.Unmarshal(body, &lock); err != nil {
		return nil, fmt.Errorf("reading the versions of npm packages: %s: %w", file, err)
	}
	return lock.Packages, nil
}

var packagePath = regexp.MustCompile(`^((?:.*/)?node_modules/(?:@[^/]+/)?[^/]+)/`)

// packageOf returns the key of package-lock.json of the package that a module belongs to, and
// false for a module of the console itself.
func packageOf(module string) (string, bool, error) {
	if name, ok := strings.CutPrefix(module, virtual); ok {
		name, _, _ = strings.Cut(name, "/")
		return "node_modules/" + name, true, nil
	}
	if match := packagePath.FindStringSubmatch(module); match != nil {
		return match[1], true, nil
	}
	if strings.HasPrefix(module, "src/") || module == "index.html" {
		return "", false, nil
	}
	return "", false, fmt.Errorf("module %q belongs neither to a package nor to the console", module)
}

func (b *bundled) describe(root string, lock map[string]lockedPackage) (NPM, error) {
	locked, ok := lock[b.path]
	if !ok {
		return NPM{}, fmt.Errorf("package-lock.json does not have this package")
	}
	name := b.path[strings.LastIndex(b.path, "node_modules/")+len("node_modules/"):]
	p := NPM{Name: name, Version: locked.Version, Integrity: locked.Integrity, Bundles: b.bundles}
	var err error
	if p.Texts, err = b.texts(root); err != nil {
		return NPM{}, err
	}
	p.Licence = join(p.Texts)
	return p, nil
}

func (b *bundled) texts(root string) ([]Text, error) {
	if len(b.modules) == 0 {
		return b.bundlerLicence()
	}
	texts, err := read(b.dir, b.dir)
	if err != nil {
		return nil, err
	}
	if join(texts) != "" {
		return texts, nil
	}
	return b.declaration(root)
}

// bundlerLicence returns the licence of the bundler, whose functions are in the bundle. The
// licences of the packages inside the bundler follow it in its file and do not apply.
func (b *bundled) bundlerLicence() ([]Text, error) {
	for _, name := range []string{"LICENSE", "LICENSE.md"} {
		body, err := os.ReadFile(filepath.Join(b.dir, name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		own, _, _ := strings.Cut(string(body), "# Licenses of bundled dependencies")
		id, err := identify([]byte(own))
		if err != nil {
			return nil, err
		}
		return []Text{{Name: name, Licence: id, Body: own}}, nil
	}
	return nil, fmt.Errorf("the package has no licence file in %s", b.dir)
}
