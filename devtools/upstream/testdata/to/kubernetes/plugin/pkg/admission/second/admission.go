package second

// PluginName is the name of the plugin.
const PluginName = "Second"
