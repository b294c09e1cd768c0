// Package settings reads the settings of the Go example policies: the policy's own table of the configuration, which a
// module gets as canonical JSON. It imports abi only, keeps no state, and runs once an instance, so it may allocate.
//
//	func configure(_ abi.HostInfo, config []byte) int32 {
//		return settings.Read(config, func(key string, value uint64) bool {
//			switch key {
//			case "horizon_ticks":
//				p.horizon = value
//				return value <= 1<<16
//			}
//			return false
//		})
//	}
package settings
