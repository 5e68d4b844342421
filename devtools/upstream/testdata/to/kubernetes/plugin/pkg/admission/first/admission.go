package first

// PluginName is the name of the plugin.
const PluginName = "First"
