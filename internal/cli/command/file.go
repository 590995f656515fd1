package command

import (
	"fmt"
	"io"
	"os"
)

// ReadFile reads a file or, for -, from in; it refuses more than limit bytes.
func ReadFile(in io.Reader, path string, limit int64) ([]byte, error) {
	var data []byte
	var err error
	if path == "-" {
		data, err = io.ReadAll(io.LimitReader(in, limit+1))
	} else {
		data, err = ReadAtMost(path, limit+1)
	}
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return data, err
}

// ReadAtMost reads the beginning of a file.
func ReadAtMost(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}
