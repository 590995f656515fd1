//go:build linux && (amd64 || arm64)

package notify

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sizes is struct seccomp_notif_sizes of <linux/seccomp.h>: a kernel may support longer
// structures than this program.
type sizes struct {
	request, response, data uint16
}

// request is struct seccomp_notif. Its other fields are the flags, the architecture, which the
// filter has checked, and the instruction pointer.
type request struct {
	id   uint64
	pid  uint32
	nr   int32
	args [6]uint64
}

// The sizes of the structures in this program.
const (
	requestSize  = 80
	responseSize = 24
)

func structSizes() (sizes, error) {
	var s sizes
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&s)))
	if errno != 0 {
		return s, errno
	}
	if s.request < requestSize || s.response < responseSize {
		return s, unix.EOVERFLOW
	}
	return s, nil
}

// receive reads one request. The kernel requires the buffer to be zero.
func receive(fd int, buffer []byte) (request, error) {
	clear(buffer)
	if err := ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, buffer); err != nil {
		return request{}, err
	}
	r := request{
		id:  binary.NativeEndian.Uint64(buffer),
		pid: binary.NativeEndian.Uint32(buffer[8:]),
		nr:  int32(binary.NativeEndian.Uint32(buffer[16:])),
	}
	for i := range r.args {
		r.args[i] = binary.NativeEndian.Uint64(buffer[32+8*i:])
	}
	return r, nil
}

// answer makes the call of request id fail (struct seccomp_notif_resp). The flags stay zero:
// SECCOMP_USER_NOTIF_FLAG_CONTINUE must never be set here. ENOENT means that the caller has
// exited.
func answer(fd int, buffer []byte, id uint64, errno unix.Errno) error {
	clear(buffer)
	binary.NativeEndian.PutUint64(buffer, id)
	binary.NativeEndian.PutUint32(buffer[16:], uint32(-int32(errno)))
	return ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, buffer)
}

// alive reports whether the caller still waits. Otherwise its pid may have been reused.
func alive(fd int, id uint64) bool {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_ID_VALID, uintptr(unsafe.Pointer(&id)))
	return errno == 0
}

func ioctl(fd int, command uintptr, buffer []byte) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), command, uintptr(unsafe.Pointer(&buffer[0])))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
			continue
		}
		return errno
	}
}
