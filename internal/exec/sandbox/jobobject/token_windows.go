package jobobject

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Flags of CreateRestrictedToken: no privilege except passing through directories, and
// administrators' groups only for denying.
const (
	disableMaxPrivilege = 0x1
	luaToken            = 0x4
)

// lowIntegrity is SECURITY_MANDATORY_LOW_RID.
const lowIntegrity = 0x1000

// changeNotify is SE_CHANGE_NOTIFY_PRIVILEGE, which every token keeps.
const changeNotify = 23

// restrictedToken creates a token with fewer privileges than the daemon's. With low, it may write
// only to objects with a low label.
func restrictedToken(low bool) (windows.Token, error) {
	var own, less windows.Token
	const access = windows.TOKEN_DUPLICATE | windows.TOKEN_QUERY | windows.TOKEN_ASSIGN_PRIMARY | windows.TOKEN_ADJUST_DEFAULT
	if err := windows.OpenProcessToken(windows.CurrentProcess(), access, &own); err != nil {
		return 0, fmt.Errorf("OpenProcessToken: %w", err)
	}
	defer own.Close()
	ok, _, err := windows.NewLazySystemDLL("advapi32.dll").NewProc("CreateRestrictedToken").
		Call(uintptr(own), disableMaxPrivilege|luaToken, 0, 0, 0, 0, 0, 0, uintptr(unsafe.Pointer(&less)))
	if ok == 0 {
		return 0, fmt.Errorf("CreateRestrictedToken: %w", err)
	}
	if low {
		if err := lower(less); err != nil {
			less.Close()
			return 0, err
		}
	}
	return less, nil
}

func lower(t windows.Token) error {
	sid, err := windows.CreateWellKnownSid(windows.WinLowLabelSid)
	if err != nil {
		return fmt.Errorf("CreateWellKnownSid: %w", err)
	}
	label := windows.Tokenmandatorylabel{Label: windows.SIDAndAttributes{Sid: sid, Attributes: windows.SE_GROUP_INTEGRITY}}
	if err := windows.SetTokenInformation(t, windows.TokenIntegrityLevel, (*byte)(unsafe.Pointer(&label)), label.Size()); err != nil {
		return fmt.Errorf("lowering the integrity of a token: %w", err)
	}
	return nil
}

// tokenOf contains the relevant properties of a process's token.
type tokenOf struct {
	// bare is true if changeNotify is the only remaining privilege.
	bare bool
	low  bool
}

// readToken reads the token of a process that has not run yet.
func readToken(process windows.Handle) (tokenOf, error) {
	var t windows.Token
	if err := windows.OpenProcessToken(process, windows.TOKEN_QUERY, &t); err != nil {
		return tokenOf{}, fmt.Errorf("OpenProcessToken: %w", err)
	}
	defer t.Close()
	privileges, err := information(t, windows.TokenPrivileges)
	if err != nil {
		return tokenOf{}, err
	}
	found := tokenOf{bare: true}
	for _, p := range (*windows.Tokenprivileges)(unsafe.Pointer(&privileges[0])).AllPrivileges() {
		if p.Luid != (windows.LUID{LowPart: changeNotify}) {
			found.bare = false
		}
	}
	label, err := information(t, windows.TokenIntegrityLevel)
	if err != nil {
		return found, nil // a label that cannot be read is not low
	}
	sid := (*windows.Tokenmandatorylabel)(unsafe.Pointer(&label[0])).Label.Sid
	found.low = sid.SubAuthority(uint32(sid.SubAuthorityCount())-1) <= lowIntegrity
	return found, nil
}

func information(t windows.Token, class uint32) ([]byte, error) {
	size := uint32(256)
	for {
		buffer := make([]byte, size)
		err := windows.GetTokenInformation(t, class, &buffer[0], size, &size)
		if err == nil {
			return buffer, nil
		}
		if err != windows.ERROR_INSUFFICIENT_BUFFER || size <= uint32(len(buffer)) { //nolint:errorlint // an errno
			return nil, fmt.Errorf("GetTokenInformation: %w", err)
		}
	}
}

// lowDirectory creates a directory that processes of low integrity may write to.
func lowDirectory(name string) error {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return err
	}
	sd, err := windows.SecurityDescriptorFromString("S:(ML;OICI;NW;;;LW)")
	if err != nil {
		return fmt.Errorf("creating a label: %w", err)
	}
	sa := windows.SecurityAttributes{SecurityDescriptor: sd}
	sa.Length = uint32(unsafe.Sizeof(sa))
	if err := windows.CreateDirectory(path, &sa); err != nil {
		return fmt.Errorf("creating %s: %w", name, err)
	}
	return nil
}
