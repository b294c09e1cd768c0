package host

import "golang.org/x/sys/unix"

// hugePage is the smallest map that is worth huge pages.
const hugePage = 2 << 20

// adviseHuge asks for huge pages: a restore walks pages in no order, and small ones cost it a miss
// in the address cache each. A kernel without them says no, which changes nothing.
func adviseHuge(mem []byte) {
	if len(mem) >= hugePage {
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	}
}
