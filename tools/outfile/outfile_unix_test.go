//go:build unix

package outfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// withUmask sets the umask of the process. Tests that depend on the umask must not run in parallel.
func withUmask(t *testing.T, mask int) {
	t.Helper()
	old := syscall.Umask(mask)
	t.Cleanup(func() { syscall.Umask(old) })
}

func TestANewFileIsForItsOwnerAndAnOldOneKeepsItsMode(t *testing.T) {
	for _, mask := range []int{0o022, 0o077, 0o002} {
		t.Run(fmt.Sprintf("%03o", mask), func(t *testing.T) {
			withUmask(t, mask)
			dir := filepath.Join(t.TempDir(), "a", "b")
			must(t, MkdirAll(dir))
			if info, err := os.Stat(dir); err != nil || int(info.Mode().Perm()) != 0o777&^mask {
				t.Errorf("the directory: %v, %v, want %o", info.Mode(), err, 0o777&^mask)
			}
			name := filepath.Join(dir, "page")
			want := fs.FileMode(0o600)
			for _, mode := range []fs.FileMode{want, 0o600, 0o666, 0o751} {
				must(t, Write(t.Context(), name, []byte("x")))
				if info, err := os.Stat(name); err != nil || info.Mode() != want {
					t.Errorf("%v, %v, want %v", info.Mode(), err, want)
				}
				must(t, os.Chmod(name, mode))
				want = mode
			}
		})
	}
}

func TestANewFileIsForTheGroupThatTheDirectoryGivesItTo(t *testing.T) {
	withUmask(t, 0o007)
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o770|fs.ModeSetgid))
	name := filepath.Join(dir, "page")
	must(t, Write(t.Context(), name, []byte("x")))
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o660 {
		t.Errorf("%v, %v, want 660", info.Mode(), err)
	}
}

// TestWhatAnotherUserLeftInADirectoryForAllIsLeftToTheSystem has links, pipes and files of another user in a directory
// like /tmp. Where the system does not let them be opened for creation, nothing is written and nothing is changed.
func TestWhatAnotherUserLeftInADirectoryForAllIsLeftToTheSystem(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make files of others")
	}
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o777|fs.ModeSticky))
	mine := filepath.Join(t.TempDir(), "mine")
	must(t, os.WriteFile(mine, []byte("mine"), 0o600))
	refused := 0
	for what, leave := range map[string]func(name string) error{
		"link":          func(name string) error { return os.Symlink(mine, name) },
		"dangling link": func(name string) error { return os.Symlink(mine+"-new", name) },
		"file":          func(name string) error { return os.WriteFile(name, []byte("theirs"), 0o666) },
		"pipe":          func(name string) error { return syscall.Mkfifo(name, 0o666) },
	} {
		name := filepath.Join(dir, what)
		must(t, leave(name))
		must(t, os.Lchown(name, 65534, 65534))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|syscall.O_NONBLOCK, 0)
		if !errors.Is(err, fs.ErrPermission) {
			if err == nil {
				f.Close()
			}
			continue
		}
		refused++
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // a pipe would be waited for
		if err := Write(ctx, name, []byte("new")); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a %s of another user: %v, want %v", what, err, fs.ErrPermission)
		}
		cancel()
	}
	if refused == 0 {
		t.Skip("this system does not protect such directories")
	}
	wantContent(t, mine, "mine")
}

func TestADirectoryThatMayNotBeWrittenKeepsItsFiles(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write all")
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "old")
	must(t, errors.Join(os.WriteFile(name, []byte("old"), 0o600), os.Chmod(dir, 0o500)))
	defer os.Chmod(dir, 0o700) //nolint:errcheck // for the removal of the directory
	for _, name := range []string{name, filepath.Join(dir, "new")} {
		if err := Write(t.Context(), name, []byte("new")); err == nil || err.Error() != name+": permission denied" {
			t.Errorf("got %v, want permission denied", err)
		}
	}
	wantContent(t, name, "old")
	wantNames(t, dir, "old")
}

func TestAFullDiskLeavesTheOldContentAndNoOtherFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a")
	must(t, os.WriteFile(name, []byte("old"), 0o600))
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	small := limit
	small.Cur = 1 << 16 // longer writes fail, as on a full disk
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small))
	err := Write(t.Context(), name, make([]byte, 1<<17))
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	if !errors.Is(err, syscall.EFBIG) || !strings.HasPrefix(err.Error(), name+": ") {
		t.Errorf("got %v, want %v", err, syscall.EFBIG)
	}
	wantContent(t, name, "old")
	wantNames(t, dir, "a")
}

func TestAPipeIsWrittenInto(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	must(t, errors.Join(syscall.Mkfifo(name, 0o600), os.Symlink("pipe", link)))
	want := bytes.Repeat([]byte("page"), 1<<16) // more than a pipe holds
	for _, to := range []string{name, link} {
		must(t, Check(to)) // must not wait
		read := make(chan []byte)
		go func() {
			f, err := os.Open(name)
			if err != nil {
				t.Error(err)
			}
			b, _ := io.ReadAll(f)
			f.Close()
			read <- b
		}()
		must(t, Write(t.Context(), to, want))
		if info, err := os.Lstat(name); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
			t.Fatalf("%v, %v, want a pipe still", info.Mode(), err)
		}
		if got := <-read; !bytes.Equal(got, want) {
			t.Errorf("%d bytes came through, want %d", len(got), len(want))
		}
	}
	wantNames(t, dir, "link pipe")
}

func TestNobodyWaitsForAPipeLongerThanTheContext(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(name, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	from := &afterwards{ended: make(chan error)}
	if err := WriteFrom(ctx, name, from); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0) // releases the writer that is still waiting
	must(t, err)
	if err := <-from.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a write after the end of the context: %v, want %v", err, context.Canceled)
	}
	must(t, f.Close())
}

// An afterwards writes a byte and sends the error.
type afterwards struct{ ended chan error }

func (a *afterwards) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write([]byte("x"))
	a.ended <- err
	return int64(n), err
}

func TestADeviceIsWrittenInto(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("a failure would replace the system's device")
	}
	must(t, Write(t.Context(), os.DevNull, []byte("x")))
	if info, err := os.Lstat(os.DevNull); err != nil || info.Mode()&fs.ModeCharDevice == 0 {
		t.Fatalf("%v, %v, want a device still", info.Mode(), err)
	}
}

// TestADeviceThatIsFull creates its own device, like /dev/full, so that nothing of the system is at risk.
func TestADeviceThatIsFull(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "full")
	if err := makeFullDevice(name); err != nil {
		t.Skip("no device can be made here: ", err)
	}
	if err := Write(t.Context(), name, []byte("x")); !errors.Is(err, syscall.ENOSPC) ||
		err.Error() != name+": no space left on device" {
		t.Errorf("got %v, want %v", err, syscall.ENOSPC)
	}
	if info, err := os.Lstat(name); err != nil || info.Mode()&fs.ModeCharDevice == 0 {
		t.Errorf("%v, %v, want a device still", info.Mode(), err)
	}
	wantNames(t, dir, "full")
}

func TestAnOpenFileByItsNumberIsWrittenInto(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	must(t, os.WriteFile(name, []byte("old "), 0o600))
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	number := fmt.Sprintf("/dev/fd/%d", f.Fd())
	if _, err := os.Stat(number); err != nil {
		t.Skip("open files have no names here: ", err)
	}
	must(t, Write(t.Context(), number, []byte("new")))
	b := make([]byte, 100)
	n, _ := f.ReadAt(b, 0) // the open file, not another of the same name
	if got, want := string(b[:n]), "old new"; got != want {
		t.Errorf("the open file holds %q, want %q", got, want)
	}
}
