"""Orders, documents and inbox items as text, tables, live trees and JSON, for both command lines."""
