//go:build race

package plugins_test

// raceDetector says that the process keeps a shadow of its memory, so that its size says nothing.
const raceDetector = true
