"""What results show of themselves: lines and tables, notebooks, pictures and their colours."""
