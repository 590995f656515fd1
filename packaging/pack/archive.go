package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// tarball returns the entries as a tar stream; its time is the same for all of them.
func tarball(w io.Writer, entries []entry, when time.Time) error {
	archive := tar.NewWriter(w)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: int64(e.mode.Perm()), ModTime: when, Format: tar.FormatPAX, Uid: e.uid, Gid: e.uid}
		if e.uid == 0 {
			header.Uname, header.Gname = "root", "root"
		}
		var body []byte
		switch {
		case e.mode.IsDir():
			header.Typeflag, header.Name = tar.TypeDir, e.name+"/"
		case e.mode&fs.ModeSymlink != 0:
			header.Typeflag, header.Linkname = tar.TypeSymlink, e.target
		default:
			var err error
			if body, err = e.content(); err != nil {
				return err
			}
			header.Typeflag, header.Size = tar.TypeReg, int64(len(body))
		}
		if e.mode&fs.ModeSticky != 0 {
			header.Mode |= 0o1000
		}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		if _, err := archive.Write(body); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return archive.Close()
}

func tarGzip(entries []entry, when time.Time) ([]byte, error) {
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if err := tarball(compressed, entries, when); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func zipped(entries []entry, when time.Time) ([]byte, error) {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	archive.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, e := range entries {
		if e.mode.IsDir() {
			continue
		}
		body, err := e.content()
		if err != nil {
			return nil, err
		}
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: when}
		header.SetMode(e.mode)
		w, err := archive.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(body); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
