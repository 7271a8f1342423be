"""ThunderAgent's and ToolOrchestra's logs in, and ThunderAgent's summaries out."""
