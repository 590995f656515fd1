package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	layers "github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the uid and gid of palyrad in a container; as a number, so that a runtime that
// refuses root can check it.
const imageUser = 65532

const imageConfig = "/etc/palyra/palyra.toml"

// An image is a kind of image.
type image struct {
	name, title string
	sandbox     bool // with bubblewrap and what programs in the full sandbox need
}

var images = []image{
	{name: "palyra", title: "Palyra gateway"},
	{name: "palyra-sandbox", title: "Palyra gateway with sandbox", sandbox: true},
}

func (i image) fileName(rel release) string { return i.name + "_" + rel.version + "_oci.tar" }

// archive returns the OCI layout of an image in a tar archive, with an index of both architectures.
func (i image) archive(ctx context.Context, o options, rel release) ([]byte, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range linuxArches {
		made, err := i.make(ctx, o, rel, arch)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: made, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	// By these names podman, skopeo and ctr call it after an import.
	names := map[string]string{"org.opencontainers.image.ref.name": rel.imageTag(), "io.containerd.image.name": "localhost/" + i.name + ":" + rel.imageTag()}
	layout := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	return layoutArchive(mutate.AppendManifests(layout, mutate.IndexAddendum{Add: index, Descriptor: v1.Descriptor{Annotations: names}}), rel.date)
}

// make returns the image of an architecture.
func (i image) make(ctx context.Context, o options, rel release, arch string) (v1.Image, error) {
	var stack []v1.Layer
	if i.sandbox {
		system, err := debianSystem(ctx, o, arch)
		if err != nil {
			return nil, err
		}
		layer, err := layerOf(system, rel.date)
		if err != nil {
			return nil, err
		}
		stack = append(stack, layer)
	}
	base, err := imageBase(o)
	if err != nil {
		return nil, err
	}
	programs, err := tree(filepath.Join(o.stage, "linux_"+arch+".root", "usr", "bin"), "usr/bin")
	if err != nil {
		return nil, err
	}
	if !i.sandbox { // it needs a C library and bubblewrap
		programs = slices.DeleteFunc(programs, func(e entry) bool { return e.name == "usr/bin/palyra-wasm" })
	}
	documents, err := documents(o, "usr/share/doc/palyra")
	if err != nil {
		return nil, err
	}
	for _, entries := range [][]entry{base, append(programs, documents...)} {
		layer, err := layerOf(entries, rel.date)
		if err != nil {
			return nil, err
		}
		stack = append(stack, layer)
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: rel.date}
	for _, layer := range stack {
		if img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "make packages"}}); err != nil {
			return nil, err
		}
	}
	return mutate.ConfigFile(img, i.config(img, rel, arch, created))
}

// config returns the configuration of an image with the layers that it has.
func (i image) config(img v1.Image, rel release, arch string, created v1.Time) *v1.ConfigFile {
	config, err := img.ConfigFile()
	if err != nil {
		config = &v1.ConfigFile{}
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, created
	config.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", imageUser, imageUser),
		Entrypoint:   []string{"/usr/bin/palyrad"},
		Cmd:          []string{"--config", imageConfig},
		Env:          []string{"PATH=/usr/bin", "HOME=/var/lib/palyra", "PALYRA_CONFIG=" + imageConfig},
		WorkingDir:   "/",
		Volumes:      map[string]struct{}{"/var/lib/palyra": {}},
		ExposedPorts: map[string]struct{}{"7443/tcp": {}},
		StopSignal:   "SIGTERM",
		// No part of the OCI specification; Docker and podman read it.
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/usr/bin/palyra", "status"}, Interval: 30 * time.Second, Timeout: 10 * time.Second, StartPeriod: 30 * time.Second, Retries: 3},
		Labels: map[string]string{
			"org.opencontainers.image.title":    i.title,
			"org.opencontainers.image.version":  rel.version,
			"org.opencontainers.image.revision": rel.commit,
			"org.opencontainers.image.created":  rel.date.Format(time.RFC3339),
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return config
}

// imageTag returns the version as a tag, which must not have a tilde or a plus sign.
func (r release) imageTag() string {
	tag := []byte(r.version)
	for i, c := range tag {
		if c == '~' || c == '+' {
			tag[i] = '-'
		}
	}
	return string(tag)
}

// imageBase returns what palyrad needs in addition to the programs: users, certificates of public
// authorities, its configuration and state directory.
func imageBase(o options) ([]entry, error) {
	config, err := os.ReadFile(filepath.Join(o.root, "packaging/linux/image.toml"))
	if err != nil {
		return nil, err
	}
	var authorities bytes.Buffer
	for root := range bundle.Roots() {
		if err := pem.Encode(&authorities, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	file := func(name string, body string) entry { return entry{name: name, mode: 0o644, body: []byte(body)} }
	return []entry{
		file("etc/passwd", fmt.Sprintf("root:x:0:0:root:/root:/usr/sbin/nologin\npalyra:x:%d:%d:Palyra gateway:/var/lib/palyra:/usr/sbin/nologin\n", imageUser, imageUser)),
		file("etc/group", fmt.Sprintf("root:x:0:\npalyra:x:%d:\n", imageUser)),
		file("etc/ssl/certs/ca-certificates.crt", authorities.String()),
		file("etc/palyra/palyra.toml", string(config)),
		{name: "var/lib/palyra", mode: fs.ModeDir | 0o700, uid: imageUser},
		{name: "tmp", mode: fs.ModeDir | fs.ModeSticky | 0o777},
	}, nil
}

func layerOf(entries []entry, when time.Time) (v1.Layer, error) {
	entries, err := sorted(entries)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := tarball(&out, entries, when); err != nil {
		return nil, err
	}
	data := out.Bytes()
	return layers.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }, layers.WithMediaType(types.OCILayer))
}

// layoutArchive returns the OCI layout of an index as a tar archive.
func layoutArchive(index v1.ImageIndex, when time.Time) ([]byte, error) {
	folder, err := os.MkdirTemp("", "palyra-image-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if _, err := layout.Write(folder, index); err != nil {
		return nil, err
	}
	entries, err := tree(folder, "")
	if err != nil {
		return nil, err
	}
	for i := range entries {
		entries[i].mode = 0o644
	}
	if entries, err = sorted(entries); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := tarball(&out, entries, when); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
