package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/exec/skill"
)

// MaxPart is the maximum size of one part of an upload in bytes.
const MaxPart = 1 << 20

// Limits of concurrent uploads and staged packages, and how long each is kept after its last use.
const (
	mostUploads = 4
	mostStaged  = 8
	uploadLife  = 10 * time.Minute
	stagedLife  = time.Hour
)

// Part is one part of an uploaded package.
type Part struct {
	// Digest is "sha256:" and the digest of the whole file, and Size its size in bytes.
	Digest string
	Size   int64
	// Offset is the position of Data: the end of the previously received parts.
	Offset int64
	Data   []byte
}

// Staging holds the staged packages and the uploads in progress. All of them are files in the
// package directory, which the next start sweeps. It is safe for concurrent use.
type Staging struct {
	dir     string
	now     func() time.Time
	mu      sync.Mutex
	uploads map[uploadKey]*upload
	staged  map[string]staged
}

func newStaging(dir string, now func() time.Time) *Staging {
	return &Staging{dir: dir, now: now, uploads: map[uploadKey]*upload{}, staged: map[string]staged{}}
}

// uploadKey identifies an upload. Each principal adds only to its own uploads.
type uploadKey struct {
	by     access.Principal
	digest string
}

type upload struct {
	path           string
	size, received int64
	touched        time.Time
}

type staged struct {
	path    string
	size    int64
	touched time.Time
}

// Stage receives a part of a package and returns the number of received bytes. After the last
// part, the package becomes a staged package if its digest matches. Parts must arrive in order; a
// repeated part changes nothing.
func (s *Staging) Stage(_ context.Context, by access.Caller, p Part) (received int64, err error) {
	if err := p.check(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.expire(now)
	if one, there := s.staged[p.Digest]; there {
		one.touched = now
		s.staged[p.Digest] = one
		return one.size, nil
	}
	key := uploadKey{by.Principal, p.Digest}
	u := s.uploads[key]
	if u == nil {
		if u, err = s.begin(key, p, now); err != nil {
			return 0, err
		}
	}
	switch end := p.Offset + int64(len(p.Data)); {
	case u.size != p.Size:
		return u.received, reason.Errorf(reason.InvalidInput, "the package was announced with %d bytes, and now with %d", u.size, p.Size)
	case end <= u.received:
		return u.received, nil
	case p.Offset != u.received:
		return u.received, reason.Errorf(reason.InvalidInput, "the part begins at byte %d, but %d bytes were received", p.Offset, u.received).
			WithRemedy("Continue with byte %d.", u.received)
	}
	if err := u.append(p.Data); err != nil {
		return 0, errors.Join(err, s.drop(key))
	}
	u.touched = now
	if u.received < u.size {
		return u.received, nil
	}
	return u.received, s.finish(key, now)
}

func (p Part) check() error {
	sum, err := hex.DecodeString(strings.TrimPrefix(p.Digest, "sha256:"))
	switch {
	case err != nil || len(sum) != sha256.Size || "sha256:"+hex.EncodeToString(sum) != p.Digest:
		return reason.Errorf(reason.InvalidInput, "%q is not a valid package digest", p.Digest).WithRemedy("Use sha256: and 64 lower-case hexadecimal digits.")
	case p.Size > skill.MaxPackage:
		return reason.Errorf(reason.InputTooLarge, "the package has %d bytes; the limit is %d", p.Size, skill.MaxPackage).WithRemedy("Build smaller modules, or several skills.")
	case len(p.Data) > MaxPart:
		return reason.Errorf(reason.InputTooLarge, "the part has %d bytes; the limit is %d", len(p.Data), MaxPart).WithRemedy("Send smaller parts.")
	case len(p.Data) == 0 || p.Size < 1 || p.Offset < 0 || p.Offset > p.Size-int64(len(p.Data)):
		return reason.Errorf(reason.InvalidInput, "a part of %d bytes at byte %d exceeds a package of %d bytes", len(p.Data), p.Offset, p.Size)
	}
	return nil
}

// begin creates the file of an upload.
func (s *Staging) begin(key uploadKey, p Part, now time.Time) (*upload, error) {
	if len(s.uploads) >= mostUploads || len(s.uploads)+len(s.staged) >= mostStaged {
		return nil, reason.Errorf(reason.RateLimited, "%d packages are being uploaded, and %d wait to be installed", len(s.uploads), len(s.staged)).
			WithRemedy("Install the waiting packages, or try again in %s.", uploadLife)
	}
	f, err := os.CreateTemp(s.dir, ".upload.*") // of mode 0600
	if err != nil {
		return nil, fmt.Errorf("making the file of an upload: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, errors.Join(err, os.Remove(f.Name()))
	}
	u := &upload{path: f.Name(), size: p.Size, touched: now}
	s.uploads[key] = u
	return u, nil
}

func (u *upload) append(data []byte) error {
	f, err := os.OpenFile(u.path, os.O_WRONLY, keyfile.FileMode)
	if err != nil {
		return fmt.Errorf("opening the file of an upload: %w", err)
	}
	_, err = f.WriteAt(data, u.received)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing the file of an upload: %w", err)
	}
	u.received += int64(len(data))
	return nil
}

// drop removes an upload.
func (s *Staging) drop(key uploadKey) error {
	path := s.uploads[key].path
	delete(s.uploads, key)
	return os.Remove(path)
}

// finish turns a complete upload into a staged package.
func (s *Staging) finish(key uploadKey, now time.Time) error {
	u := s.uploads[key]
	is, err := digestOf(u.path)
	if err != nil {
		return errors.Join(err, s.drop(key))
	}
	if is != key.digest {
		return errors.Join(reason.Errorf(reason.VerificationFailed, "the package has the digest %s, but %s was announced", is, key.digest).
			WithRemedy("Upload it again from the beginning."), s.drop(key))
	}
	path := filepath.Join(s.dir, ".staged."+strings.TrimPrefix(is, "sha256:"))
	if err := os.Rename(u.path, path); err != nil {
		return errors.Join(err, s.drop(key))
	}
	delete(s.uploads, key)
	s.staged[is] = staged{path, u.size, now}
	return nil
}

func digestOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// expire removes uploads and staged packages that were unused for too long.
func (s *Staging) expire(now time.Time) {
	for key, u := range s.uploads {
		if now.Sub(u.touched) > uploadLife {
			_ = s.drop(key) // the next start removes the rest
		}
	}
	for digest, one := range s.staged {
		if now.Sub(one.touched) > stagedLife {
			s.remove(digest)
		}
	}
}

// unstage removes a staged package that was installed.
func (s *Staging) unstage(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(digest)
}

// remove removes a staged package. If its file cannot be removed, the next start sweeps it. The
// caller holds s.mu.
func (s *Staging) remove(digest string) {
	if one, there := s.staged[digest]; there {
		delete(s.staged, digest)
		_ = os.Remove(one.path)
	}
}

// read reads a staged package and checks its digest again.
func (s *Staging) read(digest string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.expire(now)
	one, there := s.staged[digest]
	if !there {
		return nil, reason.Errorf(reason.NotFound, "no package with the digest %s is staged", digest).WithRemedy("Upload it first; staged packages are kept for %s.", stagedLife)
	}
	data, err := os.ReadFile(one.path)
	if errors.Is(err, fs.ErrNotExist) {
		delete(s.staged, digest)
		return nil, reason.Errorf(reason.NotFound, "the file of the staged package with the digest %s is missing", digest).WithRemedy("Upload it again.")
	}
	if err != nil {
		return nil, fmt.Errorf("reading a staged package: %w", err)
	}
	sum := sha256.Sum256(data)
	if err := compare(digest, sum[:]); err != nil {
		s.remove(digest)
		return nil, err
	}
	one.touched = now
	s.staged[digest] = one
	return data, nil
}
