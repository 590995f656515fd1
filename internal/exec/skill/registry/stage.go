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

// MaxPart is the size of one part of an upload in bytes.
const MaxPart = 1 << 20

// How many uploads and staged packages there are at once, and how long each is kept after
// somebody touched it.
const (
	mostUploads = 4
	mostStaged  = 8
	uploadLife  = 10 * time.Minute
	stagedLife  = time.Hour
)

// Part is a part of a package that is brought.
type Part struct {
	// Digest is "sha256:" and that of the whole file, Size its size in bytes.
	Digest string
	Size   int64
	// Offset is where Data belongs: after what was received before.
	Offset int64
	Data   []byte
}

// staging are the packages that were brought and not installed, and those that are being
// brought. All are files of the directory of packages that the next start sweeps.
type staging struct {
	mu      sync.Mutex
	uploads map[uploadKey]*upload
	staged  map[string]staged
}

// uploadKey is an upload: nobody adds to somebody else's.
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

// Stage takes a part of a package, and returns how much of it was received. The last part
// makes it a staged package if its digest is the one that was named. Parts come in their
// order; one that comes again changes nothing.
func (r *Registry) Stage(_ context.Context, by access.Caller, p Part) (received int64, err error) {
	if err := p.check(); err != nil {
		return 0, err
	}
	s := &r.stage
	s.mu.Lock()
	defer s.mu.Unlock()
	now := r.now()
	s.expire(now)
	if one, there := s.staged[p.Digest]; there {
		one.touched = now
		s.staged[p.Digest] = one
		return one.size, nil
	}
	key := uploadKey{by.Principal, p.Digest}
	u := s.uploads[key]
	if u == nil {
		if u, err = s.begin(r.c.Dir, key, p, now); err != nil {
			return 0, err
		}
	}
	switch end := p.Offset + int64(len(p.Data)); {
	case u.size != p.Size:
		return u.received, reason.Errorf(reason.InvalidInput, "the package was said to have %d bytes, and now %d", u.size, p.Size)
	case end <= u.received:
		return u.received, nil
	case p.Offset != u.received:
		return u.received, reason.Errorf(reason.InvalidInput, "the part begins at byte %d, and %d were received", p.Offset, u.received).
			WithRemedy("Go on with byte %d.", u.received)
	}
	if err := u.append(p.Data); err != nil {
		return 0, errors.Join(err, s.drop(key))
	}
	u.touched = now
	if u.received < u.size {
		return u.received, nil
	}
	return u.received, s.finish(r.c.Dir, key, now)
}

func (p Part) check() error {
	sum, err := hex.DecodeString(strings.TrimPrefix(p.Digest, "sha256:"))
	switch {
	case err != nil || len(sum) != sha256.Size || "sha256:"+hex.EncodeToString(sum) != p.Digest:
		return reason.Errorf(reason.InvalidInput, "%q is no digest of a package", p.Digest).WithRemedy("Write sha256: and 64 lower-case digits of hexadecimal.")
	case p.Size > skill.MaxPackage:
		return reason.Errorf(reason.InputTooLarge, "the package has %d bytes; %d are allowed", p.Size, skill.MaxPackage).WithRemedy("Make smaller modules, or several skills.")
	case len(p.Data) > MaxPart:
		return reason.Errorf(reason.InputTooLarge, "the part has %d bytes; %d are allowed", len(p.Data), MaxPart).WithRemedy("Send smaller parts.")
	case len(p.Data) == 0 || p.Size < 1 || p.Offset < 0 || p.Offset > p.Size-int64(len(p.Data)):
		return reason.Errorf(reason.InvalidInput, "a part of %d bytes at byte %d is no part of a package of %d", len(p.Data), p.Offset, p.Size)
	}
	return nil
}

// begin makes the file of an upload.
func (s *staging) begin(dir string, key uploadKey, p Part, now time.Time) (*upload, error) {
	if len(s.uploads) >= mostUploads || len(s.uploads)+len(s.staged) >= mostStaged {
		return nil, reason.Errorf(reason.RateLimited, "%d packages are being brought, and %d wait to be installed", len(s.uploads), len(s.staged)).
			WithRemedy("Install what waits, or try again in %s.", uploadLife)
	}
	f, err := os.CreateTemp(dir, ".upload.*") // of mode 0600
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

// drop forgets an upload.
func (s *staging) drop(key uploadKey) error {
	path := s.uploads[key].path
	delete(s.uploads, key)
	return os.Remove(path)
}

// finish makes a whole upload a staged package.
func (s *staging) finish(dir string, key uploadKey, now time.Time) error {
	u := s.uploads[key]
	is, err := digestOf(u.path)
	if err != nil {
		return errors.Join(err, s.drop(key))
	}
	if is != key.digest {
		return errors.Join(reason.Errorf(reason.VerificationFailed, "the package has the digest %s, and %s was named", is, key.digest).
			WithRemedy("Send it again from its beginning."), s.drop(key))
	}
	path := filepath.Join(dir, ".staged."+strings.TrimPrefix(is, "sha256:"))
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

// expire forgets what nobody touched for long.
func (s *staging) expire(now time.Time) {
	for key, u := range s.uploads {
		if now.Sub(u.touched) > uploadLife {
			_ = s.drop(key) // the next start sweeps what is left
		}
	}
	for digest, one := range s.staged {
		if now.Sub(one.touched) > stagedLife {
			s.unstage(digest)
		}
	}
}

// unstage forgets a staged package. The next start sweeps a file that cannot be removed.
func (s *staging) unstage(digest string) {
	if one, there := s.staged[digest]; there {
		delete(s.staged, digest)
		_ = os.Remove(one.path)
	}
}

// take reads a staged package, whose digest is checked anew.
func (r *Registry) takeStaged(digest string) ([]byte, error) {
	s := &r.stage
	s.mu.Lock()
	defer s.mu.Unlock()
	now := r.now()
	s.expire(now)
	one, there := s.staged[digest]
	if !there {
		return nil, reason.Errorf(reason.NotFound, "no package with the digest %s was brought", digest).WithRemedy("Bring it first; what was brought is kept for %s.", stagedLife)
	}
	data, err := os.ReadFile(one.path)
	if errors.Is(err, fs.ErrNotExist) {
		delete(s.staged, digest)
		return nil, reason.Errorf(reason.NotFound, "the package with the digest %s is not there any more", digest).WithRemedy("Bring it again.")
	}
	if err != nil {
		return nil, fmt.Errorf("reading a package that was brought: %w", err)
	}
	sum := sha256.Sum256(data)
	if err := compare(digest, sum[:]); err != nil {
		s.unstage(digest)
		return nil, err
	}
	one.touched = now
	s.staged[digest] = one
	return data, nil
}
