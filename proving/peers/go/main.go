// The Go package go-smb2 as a client: PORT SHARE USER PASSWORD (see ../run.py).
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/cloudsoda/go-smb2"
)

const base = "go-smb2"

// Nothing, one byte, around the credit and the multi-credit boundaries, and more than one request holds.
var sizes = []int{0, 1, 65535, 65537, 1<<20 + 3, 9<<20 + 1}

var failures int

func run(name string, body func() error) {
	if err := body(); err != nil {
		failures++
		fmt.Printf("FAIL %s: %s\n", name, strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	fmt.Printf("PASS %s\n", name)
}

func content(size int) []byte {
	data := make([]byte, size)
	rand.New(rand.NewSource(int64(size))).Read(data)
	return data
}

func path(name string) string { return base + `\` + name }

func dial(port, user, password string) (*smb2.Session, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	dialer := &smb2.Dialer{Initiator: &smb2.NTLMInitiator{User: user, Password: password}}
	session, err := dialer.Dial(ctx, "127.0.0.1:"+port)
	if err != nil {
		return nil, err
	}
	return session.WithContext(context.Background()), nil
}

func roundTrip(share *smb2.Share, size int) error {
	data := content(size)
	name := path(fmt.Sprintf("size-%d", size))
	if err := share.WriteFile(name, data, 0o644); err != nil {
		return err
	}
	back, err := share.ReadFile(name)
	if err != nil {
		return err
	}
	if sha256.Sum256(back) != sha256.Sum256(data) {
		return fmt.Errorf("content differs: %d bytes sent, %d came back", len(data), len(back))
	}
	return nil
}

func listing(share *smb2.Share) error {
	entries, err := share.ReadDir(base)
	if err != nil {
		return err
	}
	var found, wanted []string
	for _, entry := range entries {
		found = append(found, fmt.Sprintf("%s=%d", entry.Name(), entry.Size()))
	}
	for _, size := range sizes {
		wanted = append(wanted, fmt.Sprintf("size-%d=%d", size, size))
	}
	sort.Strings(found)
	sort.Strings(wanted)
	if strings.Join(found, " ") != strings.Join(wanted, " ") {
		return fmt.Errorf("wanted %v, found %v", wanted, found)
	}
	return nil
}

func rename(share *smb2.Share) error {
	if err := share.Rename(path("size-1"), path("renamed")); err != nil {
		return err
	}
	if _, err := share.Stat(path("size-1")); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the old name: %v", err)
	}
	info, err := share.Stat(path("renamed"))
	if err != nil {
		return err
	}
	if info.Size() != 1 {
		return fmt.Errorf("size after rename: %d", info.Size())
	}
	return nil
}

// Writers on one connection at once: their requests are interleaved on the wire.
func sideBySide(share *smb2.Share) error {
	const writers, block, blocks = 8, 100_003, 12
	results := make([]error, writers)
	var group sync.WaitGroup
	for writer := range writers {
		group.Go(func() {
			results[writer] = writeAndCheck(share, path(fmt.Sprintf("writer-%d", writer)), writer, block, blocks)
		})
	}
	group.Wait()
	return errors.Join(results...)
}

func writeAndCheck(share *smb2.Share, name string, seed, block, blocks int) error {
	file, err := share.Create(name)
	if err != nil {
		return err
	}
	defer file.Close()
	data := make([]byte, block*blocks)
	rand.New(rand.NewSource(int64(seed))).Read(data)
	for index := blocks - 1; index >= 0; index-- {
		if _, err := file.WriteAt(data[index*block:(index+1)*block], int64(index*block)); err != nil {
			return err
		}
	}
	back, err := io.ReadAll(io.NewSectionReader(file, 0, int64(len(data))))
	if err != nil {
		return err
	}
	if !bytes.Equal(back, data) {
		return fmt.Errorf("%s: content differs", name)
	}
	return nil
}

// Between two files of one server the package copies with FSCTL_SRV_COPYCHUNK.
func serverSideCopy(share *smb2.Share) error {
	from, err := share.Open(path("size-1048579"))
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := share.Create(path("copied"))
	if err != nil {
		return err
	}
	defer to.Close()
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	back, err := share.ReadFile(path("copied"))
	if err != nil {
		return err
	}
	if !bytes.Equal(back, content(1<<20+3)) {
		return errors.New("the copy differs")
	}
	return nil
}

func truncateAndTimes(share *smb2.Share) error {
	name := path("size-65537")
	stamp := time.Unix(1_500_000_000, 123_456_700)
	if err := share.Truncate(name, 1000); err != nil {
		return err
	}
	if err := share.Chtimes(name, stamp, stamp); err != nil {
		return err
	}
	info, err := share.Stat(name)
	if err != nil {
		return err
	}
	if info.Size() != 1000 || !info.ModTime().Equal(stamp) {
		return fmt.Errorf("size %d, modified %v", info.Size(), info.ModTime())
	}
	return nil
}

func missing(share *smb2.Share) error {
	if _, err := share.Open(path("nothing")); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("opening a missing file: %v", err)
	}
	return nil
}

func remove(share *smb2.Share) error {
	if err := share.MkdirAll(path(`a\b\c`), 0o755); err != nil {
		return err
	}
	if err := share.RemoveAll(base); err != nil {
		return err
	}
	if _, err := share.Stat(base); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("after removal: %v", err)
	}
	return nil
}

func shareNames(session *smb2.Session) error {
	names, err := session.ListSharenames()
	if err != nil {
		return err
	}
	for _, wanted := range []string{"files", "sealed", "IPC$"} {
		if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+wanted+" ") {
			return fmt.Errorf("%s is not among %v", wanted, names)
		}
	}
	return nil
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: PORT SHARE USER PASSWORD")
		os.Exit(2)
	}
	port, shareName, user, password := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	session, err := dial(port, user, password)
	if err != nil {
		fmt.Printf("FAIL connect: %v\n", err)
		os.Exit(1)
	}
	share, err := session.Mount(shareName)
	if err != nil {
		fmt.Printf("FAIL mount: %v\n", err)
		os.Exit(1)
	}
	run("echo", session.Echo)
	run("list the shares", func() error { return shareNames(session) })
	run("make a directory", func() error { return share.Mkdir(base, 0o755) })
	for _, size := range sizes {
		run(fmt.Sprintf("%d bytes there and back", size), func() error { return roundTrip(share, size) })
	}
	run("list", func() error { return listing(share) })
	run("rename", func() error { return rename(share) })
	run("writers side by side", func() error { return sideBySide(share) })
	run("server-side copy", func() error { return serverSideCopy(share) })
	run("truncate and times", func() error { return truncateAndTimes(share) })
	run("a missing file", func() error { return missing(share) })
	run("remove a tree", func() error { return remove(share) })
	run("unmount", share.Umount)
	run("log off", session.Logoff)
	if failures > 0 {
		os.Exit(1)
	}
}
