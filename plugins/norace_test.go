//go:build !race

package plugins_test

const raceDetector = false
