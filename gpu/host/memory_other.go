//go:build unix && !linux

package host

// adviseHuge does nothing where the system decides on its own about large pages.
func adviseHuge([]byte) {}
